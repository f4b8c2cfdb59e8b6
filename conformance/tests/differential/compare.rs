//! Runs every row of the table on both sides, and compares all that can be seen after each step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use cni_conformance::compare::accepted::{self, Side};
use cni_conformance::compare::normal::{printed, snapshot};
use cni_conformance::state::differences;
use cni_conformance::{Attachment, Runtime, Sandbox, Spelling, binaries};

use crate::case::{Case, Containers};
use crate::reference::{self, Level, Reference, say};
use crate::table::cases;

/// How many rows are worked on at the same time.
const WORKERS: usize = 4;

#[test]
fn the_same_configurations_make_the_same_state_and_results() {
    let Some(reference) = reference::find("state and results of the table's configurations") else { return };
    let (rows, beyond): (Vec<Case>, Vec<Case>) = cases().into_iter().partition(|case| case.needs <= reference.level);
    for case in &beyond {
        say(&format!("NOT COMPARED: {}: the reference in {} does not know it", case.name, reference.folder.display()));
    }
    let total = rows.len();
    let queue = Mutex::new(rows);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(case) = { queue.lock().expect("no worker panics").pop() } {
                    if catch_unwind(AssertUnwindSafe(|| compare(&case, &reference))).is_err() {
                        failed.lock().expect("no worker panics").push(case.name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no worker panics");
    assert!(failed.is_empty(), "{} of {total} configurations differ:\n{}", failed.len(), failed.join("\n"));
    let unused = accepted::unused(reference.level);
    assert!(unused.is_empty(), "accepted differences that no case shows:\n{}", unused.join("\n"));
}

fn compare(case: &Case, reference: &Reference) {
    let theirs = walk(case, &reference.folder, reference.level, Side::Reference);
    let ours = walk(case, &binaries::under_test(), reference.level, Side::Ours);
    let mut text = String::new();
    for ((step, theirs), (_, ours)) in theirs.iter().zip(&ours) {
        let apply = if step.ends_with("result") { accepted::apply } else { accepted::apply_sorted };
        let changes = differences(&apply(Side::Reference, theirs), &apply(Side::Ours, ours));
        if !changes.is_empty() {
            text.push_str(&format!("{step}:\n{}\n", changes.join("\n")));
        }
    }
    assert!(text.is_empty(), "{} (- the reference, + ours)\n{text}", case.name);
}

/// Adds two containers, checks the first, deletes them in turn, and returns what could be seen.
fn walk(case: &Case, folder: &Path, level: Level, side: Side) -> Vec<(&'static str, Vec<String>)> {
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
    let seen = || snapshot(&sandbox, &[&containers[0], &containers[1]], &kept);
    let version = case.list["cniVersion"].as_str().expect("a list has a version");
    let mut steps = Vec::new();
    let chain = runtime.add(&mut first);
    chain.expect_success();
    steps.push(("the first result", printed(&sandbox, level, version, &chain, &kept)));
    steps.push(("after the first ADD", seen()));
    if version >= "0.4.0" {
        let check = runtime.check(&first);
        let broken = case.broken_check.filter(|broken| side == Side::Reference && level <= broken.until);
        match broken {
            Some(broken) => drop(check.expect_error(broken.plugin, 999, broken.says)),
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
    match case.containers {
        Containers::One { second_del } if side == Side::Reference => {
            again.expect_error(case.list["plugins"][0]["type"].as_str().expect("a type"), 999, second_del);
        }
        Containers::One { .. } | Containers::Two => {
            again.expect_success();
        }
    }
    steps.push(("after the first DEL came again", seen()));
    if case.containers == Containers::Two {
        runtime.del(&second).expect_success();
        steps.push(("after the second DEL", seen()));
    }
    steps
}
