//! The command `losses` of a script: DEL after something is lost, and after an ADD of another network that is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::command::{add, edit, end, finish, pair};
use super::world::{LIST, World, text_of};
use crate::losses::Loss;
use crate::state::differences;

/// DEL, called twice, removes what ADD made, whatever the container or the runtime has lost meanwhile ([`Loss`]), and leaves what others
/// have.
pub fn losses(world: &mut World<'_>, options: &[&str]) {
    let (refused, options): (Vec<&str>, Vec<&str>) = options.iter().partition(|option| option.starts_with("refused="));
    let has_ports = options.iter().any(|option| option.starts_with("ports="));
    let of_ports: &[Loss] = if has_ports { &Loss::OF_PORTS } else { &[] };
    let neighbour = world.attached.first().map(|one| one.attachment.netns.clone());
    let of_others: &[Loss] = if neighbour.is_some() { &[Loss::OthersNetns] } else { &[] };
    let all = Loss::ALL.iter().chain(of_ports).chain(of_others).chain(&Loss::OF_LISTS);
    let refused = refused.first().map(|change| pair(change).1);
    if !world.is_table {
        all.for_each(|loss| lose(world, "it", *loss, neighbour.as_deref(), &options));
        return refused_elsewhere(world, "it", &options, refused);
    }
    let row = |what: String, run: &mut dyn FnMut()| {
        let done = catch_unwind(AssertUnwindSafe(run)).err().map(|panic| text_of(panic.as_ref()));
        format!("| {what} | {} |", done.unwrap_or_default().replace('\n', "; "))
    };
    let lost = |loss: &Loss| {
        let name = format!("{loss:?}");
        let row = row(loss.to_string(), &mut || lose(world, &name, *loss, neighbour.as_deref(), &options));
        // After a loss that does not hold. What is left in the container is in nobody's way.
        if world.containers.contains_key(&name) {
            drop(catch_unwind(AssertUnwindSafe(|| end(world, &name))));
        }
        row
    };
    let rows: Vec<String> = all.map(lost).collect();
    let last = row("refused".to_owned(), &mut || refused_elsewhere(world, "refusal", &options, refused));
    panic!("{}\n{last}", rows.join("\n"));
}

/// ADD of a container of this name, the loss, and DEL, which leaves nothing.
fn lose(world: &mut World<'_>, name: &str, loss: Loss, neighbour: Option<&str>, options: &[&str]) {
    let before = world.state();
    add(world, name, options, false);
    let container = world.container(name);
    let one = world.attachment_mut(name);
    let list = one.list.clone();
    one.attachment = loss.strike(&container, one.attachment.clone());
    if loss == Loss::OthersNetns {
        one.attachment.netns = neighbour.unwrap_or_default().to_owned();
    } else if Loss::OF_LISTS.contains(&loss) {
        one.list["name"] = "renamed".into();
    }
    if loss == Loss::NameAndNetns {
        if world.is_table {
            // Nothing would tell of the end of a namespace that other plugins have given no number.
            world.sandbox.sh(&format!("ip netns set {} auto 2>/dev/null || true", container.name()));
        }
        world.sandbox.end(&container);
    }
    for time in ["once", "again"] {
        let one = world.attachment(name);
        let chain = world.runtime(&one.list).del(&one.attachment);
        assert!(chain.succeeded(), "{loss}, DEL {time}: {chain}");
    }
    world.said.stdout = loss.to_string();
    // A device of the host comes back from a container that DEL does not find when the namespace ends.
    if !world.attachment(name).list.to_string().contains("\"host-device\"") {
        world.standing.leave(name);
        world.standing.assert_unchanged_since(&before, world.sandbox);
    }
    // A DEL under the former name may come late.
    world.attachment_mut(name).list = list;
    finish(world, name);
    world.standing.assert_unchanged_since(&before, world.sandbox);
}

/// While a network has the interface, ADD by another one is refused, again and again, and the DEL and GC that follow take nothing. A change
/// of the list makes ADD fail of plugins that need no interface for themselves.
fn refused_elsewhere(world: &mut World<'_>, name: &str, options: &[&str], change: Option<&str>) {
    add(world, name, options, false);
    let one = world.attachment(name);
    let (mut list, mut attachment) = (one.list.clone(), one.attachment.clone().without_result());
    if let Some(change) = change {
        assert_eq!(&list, world.list(LIST), "`refused=` changes the list of the file {LIST}.conflist");
        let (former, _) = edit(world, &[change]);
        list = world.lists.insert(LIST.to_owned(), former).expect("the changed list");
    }
    list["name"] = "other".into();
    let (runtime, before) = (world.runtime(&list), world.state());
    for _ in ["once", "again"] {
        let done = runtime.add(&mut attachment);
        assert!(!done.succeeded(), "ADD in another network: {done}");
        for _ in ["once", "again"] {
            runtime.del(&attachment).expect_success();
            if list["cniVersion"] == "1.1.0" {
                runtime.gc(&[]).expect_success();
            }
        }
    }
    // The other network has made what its containers share.
    let mut left = differences(&before, &world.state());
    left.retain(|line| line.starts_with("- ") || line.contains(&format!("{name} ")));
    assert!(left.is_empty(), "DEL of the other network has changed:\n{}", left.join("\n"));
    finish(world, name);
}
