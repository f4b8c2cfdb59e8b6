//! A system call of ADD or DEL fails, or the plugin is killed at it. An ADD that fails leaves nothing. After an ADD that succeeds, CHECK passes.
//! A DEL that succeeds leaves nothing. If a DEL fails, or a plugin is killed, the next DEL leaves nothing.
//!
//! `CNI_CASE_FAULTS` says how many are tried for each case: a number of them, the same ones in each run, split over the ways to carry it out,
//! or `all`.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use super::format::Standing;
use super::world::{LIST, World};
use crate::injection::{SystemCall, calls_of};
use crate::numbers::Numbers;
use crate::plugin::{Invocation, Verb};
use crate::runtime::{Attachment, Runtime};
use crate::{Outcome, plugins};

/// One way to disturb a plugin.
struct Fault {
    verb: Verb,
    /// The plugin's place in the list.
    place: usize,
    call: SystemCall,
    is_killed: bool,
}

/// Their DEL succeeds with a warning when it cannot restore something in the container's namespace.
const WARNING_SUFFICES: [&str; 2] = ["consul-cni", "tuning"];

/// Tries faults of the first attachment of a case that was added, with another container. Where the script has left a host on which it could
/// not be added again, there is nothing to disturb.
///
/// # Panics
/// If something is left: the message names the call, and how to repeat it.
pub fn try_some(world: &mut World<'_>) {
    let count = match env::var("CNI_CASE_FAULTS").as_deref() {
        Ok("0") | Err(_) => return,
        Ok("all") => usize::MAX,
        Ok(number) => {
            let number: usize =
                number.parse().unwrap_or_else(|_| panic!("CNI_CASE_FAULTS={number} is neither a number nor all"));
            number.div_ceil(world.variant.case.ways())
        }
    };
    let container = world.container("fault");
    let (mut attachment, list) = match world.attached.iter().find(|one| one.attachment.result.is_some()) {
        Some(first) => (first.attachment.clone(), first.list.clone()),
        None => {
            let list = world.list(LIST).clone();
            (world.unattached("fault", &list), list)
        }
    };
    let own = std::mem::replace(&mut attachment.netns, container.path().to_owned());
    (attachment.container_id, attachment.result) = ("fault".to_owned(), None);
    let runtime = world.runtime(&list);
    let has_check = world.must_pass_check(&list);
    let mut found = undisturbed(&runtime, &attachment, has_check);
    if found.is_none() && own != attachment.netns {
        // The script may have made in its own container what the plugin needs there.
        attachment.netns = own;
        found = undisturbed(&runtime, &attachment, has_check);
    }
    let name = world.variant.name();
    let Some(must_pass_check) = found else {
        assert!(count < usize::MAX, "NO FAULTS: after the script the container cannot be added again");
        eprintln!("NO FAULTS: after the script of {name} the container cannot be added again");
        return;
    };
    if has_check && !must_pass_check {
        eprintln!("NO CHECK with faults: after the script of {name} a new container does not pass it");
    }
    if let Some(firewalld) = &world.firewalld {
        // A fault may hide it, and then containers share what they share without it.
        let hidden = world.runtime(&list).env(firewalld.bus_variable().0, "unix:path=/nowhere");
        world.standing.learn(world.sandbox, &hidden, &attachment);
    }
    let world = &*world;
    let before = world.state();
    let faults = chosen(&runtime, &attachment, count, &name).into_iter();
    for fault in faults.filter(|fault| !fault.is_killed || world.is_on(Standing::Killed)) {
        let what = if fault.is_killed { "killed at".to_owned() } else { format!("{} at", fault.call.error()) };
        let label = format!("{} {}, {what} {}", kind(&runtime, fault.place), fault.verb, fault.call.label());
        let done = catch_unwind(AssertUnwindSafe(|| {
            disturb(world, &before, (&runtime, attachment.clone()), &fault, must_pass_check);
        }));
        if let Err(panic) = done {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!(
                "{label}\n{text}\nto repeat it: with CNI_CASE_FAULTS={}",
                env::var("CNI_CASE_FAULTS").unwrap_or_default()
            );
        }
    }
}

/// Adds and deletes an attachment, and returns whether CHECK, if the case has it, passes in between; `None` if it cannot be added.
fn undisturbed(runtime: &Runtime<'_>, attachment: &Attachment, has_check: bool) -> Option<bool> {
    let mut added = attachment.clone();
    let is_added = runtime.add(&mut added).succeeded();
    let passes = is_added && has_check && runtime.check(&added).succeeded();
    let deleted = runtime.del(attachment);
    is_added.then(|| {
        deleted.expect_success();
        passes
    })
}

fn kind<'r>(runtime: &'r Runtime<'_>, place: usize) -> &'r str {
    runtime.plugins()[place]["type"].as_str().expect("a plugin has a type")
}

fn call(runtime: &Runtime<'_>, verb: Verb, place: usize, at: &Attachment, previous: Option<&Value>) -> Invocation {
    runtime.invocation(verb, kind(runtime, place), at, previous)
}

/// A plugin's ADD or DEL, by its place in the list.
type Part = (Verb, usize);

/// The plugins under test, which a script of the case is not, each with ADD and DEL.
fn parts(runtime: &Runtime<'_>) -> Vec<Part> {
    let places = (0..runtime.plugins().len()).filter(|place| plugins::ALL.contains(&kind(runtime, *place)));
    places.flat_map(|place| [(Verb::Add, place), (Verb::Del, place)]).collect()
}

/// The faults of some parts of an ADD and a DEL that nothing disturbs otherwise.
fn faults_of(runtime: &Runtime<'_>, at: &Attachment, wanted: &[Part]) -> Vec<(Part, Vec<Fault>)> {
    let (mut found, mut results) = (Vec::new(), Vec::new());
    let mut extend = |verb, place, calls: Vec<SystemCall>| {
        let both = calls.into_iter().flat_map(|call| [(call.clone(), false), (call, true)]);
        found.push(((verb, place), both.map(|(call, is_killed)| Fault { verb, place, call, is_killed }).collect()));
    };
    for place in 0..runtime.plugins().len() {
        let add = call(runtime, Verb::Add, place, at, results.last());
        if wanted.contains(&(Verb::Add, place)) {
            extend(Verb::Add, place, calls_of(&add));
            // The result of another ADD is the same, if DEL comes between.
            call(runtime, Verb::Del, place, at, results.last()).run().expect_success();
        }
        results.push(add.run().result());
    }
    for place in (0..runtime.plugins().len()).rev() {
        let del = call(runtime, Verb::Del, place, at, results.last());
        if wanted.contains(&(Verb::Del, place)) {
            extend(Verb::Del, place, calls_of(&del));
        } else {
            del.run().expect_success();
        }
    }
    found
}

/// All faults, or so many, which depend on the name alone. To trace every part takes longer than a fault, so the parts are chosen first.
fn chosen(runtime: &Runtime<'_>, at: &Attachment, count: usize, name: &str) -> Vec<Fault> {
    let parts = parts(runtime);
    if count == usize::MAX || parts.is_empty() {
        return faults_of(runtime, at, &parts).into_iter().flat_map(|(_, faults)| faults).collect();
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let mut numbers = Numbers::of(hasher.finish());
    let picks: Vec<Part> = (0..count).map(|_| parts[numbers.below(parts.len())]).collect();
    let mut found = faults_of(runtime, at, &picks);
    let mut take = |part: Part| {
        let (_, faults) = found.iter_mut().find(|(of, _)| *of == part)?;
        (!faults.is_empty()).then(|| faults.swap_remove(numbers.below(faults.len())))
    };
    picks.into_iter().filter_map(&mut take).collect()
}

/// Adds and deletes with a fault. After an ADD that has failed, and after a DEL that has succeeded, only the other plugins' DELs are called before
/// the comparison. As a runtime does, DEL follows an ADD that has failed, and is repeated if it fails.
fn disturb(
    world: &World<'_>,
    before: &[String],
    (runtime, mut at): (&Runtime<'_>, Attachment),
    fault: &Fault,
    must_pass_check: bool,
) {
    let (mut results, last): (Vec<Value>, _) = (Vec::new(), runtime.plugins().len());
    let (mut has_failed, mut must_be_clean) = (false, false);
    for place in 0..last {
        let add = call(runtime, Verb::Add, place, &at, results.last());
        if fault.verb != Verb::Add || fault.place != place {
            results.push(add.run().result());
        } else if let Some(done) = run_with_fault(fault, &add) {
            results.push(done.result());
        } else {
            has_failed = true;
            break;
        }
    }
    at.result = results.last().filter(|_| results.len() == last).cloned();
    let del_all = |places: Range<usize>| {
        for place in places.rev() {
            call(runtime, Verb::Del, place, &at, at.result.as_ref()).run().expect_success();
        }
    };
    if fault.verb == Verb::Del {
        del_all(fault.place + 1..last);
        let del = call(runtime, Verb::Del, fault.place, &at, at.result.as_ref());
        let may_warn = WARNING_SUFFICES.contains(&kind(runtime, fault.place));
        let done = run_with_fault(fault, &del);
        must_be_clean = done.is_some_and(|done| !(may_warn && done.stderr().contains(" warn: ")));
    } else if has_failed {
        must_be_clean = !fault.is_killed;
    } else if must_pass_check {
        runtime.check(&at).expect_success();
    }
    if must_be_clean {
        del_all(0..fault.place);
        world.standing.assert_all_but_caches_unchanged_since(before, world.sandbox);
    }
    runtime.del(&at).expect_success();
    world.standing.assert_unchanged_since(before, world.sandbox);
}

/// Runs a plugin with a fault, and returns what it says if it has succeeded all the same: it has recovered, or did not come to the call.
fn run_with_fault(fault: &Fault, invocation: &Invocation) -> Option<Outcome> {
    if fault.is_killed {
        return Some(fault.call.kill_in(invocation)).filter(Outcome::succeeded);
    }
    let injected = fault.call.fail_in(invocation);
    if injected.outcome.succeeded() {
        return Some(injected.outcome);
    }
    injected.expect_error();
    None
}
