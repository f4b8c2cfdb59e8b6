//! Runs one row of the table on one side: containers are added, checked and deleted, and everything visible is
//! recorded.

use super::accepted::{self, LineOwner};
use super::look;
use super::normal::{printed, snapshot};
use super::row::ComparisonRow;
use crate::reference::Reference;
use crate::state::differences;
use crate::{Attachment, Namespace, Runtime, Sandbox, Spelling, binaries};

use LineOwner::{Ours, Reference as Theirs};

/// Runs one row on both sides, and requires the same after each step. If the plugins are exchanged under running containers, and back, all is
/// as if the reference had done everything, whichever side was called.
///
/// # Panics
/// With all that differs.
pub fn compare(case: &ComparisonRow, reference: &Reference) {
    let theirs = walk(case, reference, [Theirs, Theirs]);
    let ours = walk(case, reference, [Ours, Ours]);
    let mut text = changes(&theirs, &ours, |side, ordered, lines| {
        if ordered { accepted::apply(side, lines) } else { accepted::apply_sorted(side, lines) }
    });
    let mixed = [[Ours, Theirs], [Theirs, Ours]].into_iter().filter(|_| case.is_exchanged);
    for sides in mixed {
        // Who wrote a file or made a link depends on the turn, so the differences of both sides are set aside.
        let found = changes(&theirs, &walk(case, reference, sides), |_, ordered, lines| {
            if ordered { Vec::new() } else { accepted::apply_sorted(Ours, &accepted::apply(Theirs, lines)) }
        });
        text.push_str(&if found.is_empty() { found } else { format!("{sides:?} in turn:\n{found}") });
    }
    assert!(text.is_empty(), "{} (- the reference, + ours)\n{text}", case.name);
}

type Steps = Vec<(&'static str, Vec<String>)>;

fn changes(theirs: &Steps, ours: &Steps, apply: impl Fn(LineOwner, bool, &[String]) -> Vec<String>) -> String {
    let mut text = String::new();
    for ((step, theirs), (_, ours)) in theirs.iter().zip(ours) {
        let ordered = step.ends_with("result");
        let changes = differences(&apply(Theirs, ordered, theirs), &apply(Ours, ordered, ours));
        if !changes.is_empty() {
            text.push_str(&format!("{step}:\n{}\n", changes.join("\n")));
        }
    }
    text
}

/// Adds two containers, checks the first, deletes them in turn, and returns what could be seen. The first side adds the first container and
/// deletes the second; the second side is called between.
fn walk(case: &ComparisonRow, reference: &Reference, sides: [LineOwner; 2]) -> Steps {
    let sandbox = Sandbox::with_flavour(case.flavour);
    for line in &case.before {
        sandbox.sh(line);
    }
    let level = reference.level;
    let [one, other] = sides.map(|side| {
        let folder = if side == Ours { binaries::under_test() } else { reference.folder.clone() };
        Runtime::new(&sandbox, case.list.clone()).binaries(&folder)
    });
    let kept = case.list.to_string() + case.args;
    let containers = ["c1", "c2"].map(|name| sandbox.container(name));
    let [mut first, mut second] = [0, 1]
        .map(|at: usize| Attachment::new(containers[at].name(), &containers[at]).ports(&case.ports[at], Spelling::Go));
    first.args = case.args.to_owned();
    let both: [&Namespace; 2] = [&containers[0], &containers[1]];
    let seen = || [snapshot(&sandbox, &both, &kept), look::traffic_control(sandbox.host())].concat();
    let version = case.list["cniVersion"].as_str().expect("a list has a version");
    let mut steps = Vec::new();
    let chain = one.add(&mut first);
    chain.expect_success();
    steps.push(("the first result", printed(&sandbox, level, version, &chain, &kept)));
    steps.push(("after the first ADD", seen()));
    // The reference's CHECK fails for many lists right after its own ADD.
    if version >= "0.4.0" && sides[1] == Ours {
        other.check(&first).expect_success();
    }
    let chain = other.add(&mut second);
    chain.expect_success();
    steps.push(("the second result", printed(&sandbox, level, version, &chain, &kept)));
    steps.push(("after the second ADD", seen()));
    for step in ["after the first DEL", "after the first DEL came again"] {
        other.del(&first).expect_success();
        steps.push((step, seen()));
    }
    one.del(&second).expect_success();
    steps.push(("after the second DEL", seen()));
    steps
}
