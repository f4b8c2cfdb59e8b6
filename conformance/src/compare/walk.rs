//! Runs one row of the table on one side: containers are added, checked and deleted, and everything visible is
//! recorded.

use std::path::Path;

use super::accepted::{self, LineOwner};
use super::look;
use super::normal::{printed, snapshot};
use super::row::{ComparisonRow, Containers};
use crate::reference::{Level, Reference};
use crate::state::differences;
use crate::{Attachment, Namespace, Runtime, Sandbox, Spelling, binaries};

/// Runs one row on both sides, and requires the same after each step.
///
/// # Panics
/// With all that differs.
pub fn compare(case: &ComparisonRow, reference: &Reference) {
    let theirs = walk(case, &reference.folder, reference.level, LineOwner::Reference);
    let ours = walk(case, &binaries::under_test(), reference.level, LineOwner::Ours);
    let mut text = String::new();
    for ((step, theirs), (_, ours)) in theirs.iter().zip(&ours) {
        let apply = if step.ends_with("result") { accepted::apply } else { accepted::apply_sorted };
        let changes = differences(&apply(LineOwner::Reference, theirs), &apply(LineOwner::Ours, ours));
        if !changes.is_empty() {
            text.push_str(&format!("{step}:\n{}\n", changes.join("\n")));
        }
    }
    assert!(text.is_empty(), "{} (- the reference, + ours)\n{text}", case.name);
}

/// Adds two containers, checks the first, deletes them in turn, and returns what could be seen.
fn walk(case: &ComparisonRow, folder: &Path, level: Level, side: LineOwner) -> Vec<(&'static str, Vec<String>)> {
    let sandbox = Sandbox::with_flavour(case.flavour);
    for line in &case.before {
        sandbox.sh(line);
    }
    let runtime = Runtime::new(&sandbox, case.list.clone()).binaries(folder);
    let kept = case.list.to_string() + case.args;
    let containers = ["c1", "c2"].map(|name| sandbox.container(name));
    let [mut first, mut second] = [0, 1]
        .map(|at: usize| Attachment::new(containers[at].name(), &containers[at]).ports(&case.ports[at], Spelling::Go));
    first.args = case.args.to_owned();
    let both: [&Namespace; 2] = [&containers[0], &containers[1]];
    let seen = || [snapshot(&sandbox, &both, &kept), look::beyond_a_snapshot(&case.list, &sandbox, &both)].concat();
    let version = case.list["cniVersion"].as_str().expect("a list has a version");
    let mut steps = Vec::new();
    let chain = runtime.add(&mut first);
    chain.expect_success();
    steps.push(("the first result", printed(&sandbox, level, version, &chain, &kept)));
    steps.push(("after the first ADD", seen()));
    if version >= "0.4.0" {
        let check = runtime.check(&first);
        let broken = case.broken_check.filter(|broken| side == LineOwner::Reference && level <= broken.until);
        match broken {
            Some(broken) => broken.expect(&check),
            None => drop(check.expect_success().succeeded()),
        }
    }
    if case.containers == Containers::Two {
        let chain = runtime.add(&mut second);
        chain.expect_success();
        steps.push(("the second result", printed(&sandbox, level, version, &chain, &kept)));
        steps.push(("after the second ADD", seen()));
    }
    runtime.del(&first).expect_success();
    steps.push(("after the first DEL", seen()));
    let again = runtime.del(&first);
    match case.second_del {
        Some((plugin, says)) if side == LineOwner::Reference => drop(again.expect_error(plugin, 999, says)),
        Some(_) | None => drop(again.expect_success().succeeded()),
    }
    steps.push(("after the first DEL came again", seen()));
    if case.containers == Containers::Two {
        runtime.del(&second).expect_success();
        steps.push(("after the second DEL", seen()));
    }
    steps
}
