//! Runs every row of the table on both sides, and compares all that can be seen after each step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use cni_conformance::compare::accepted;
use cni_conformance::compare::row::ComparisonRow;
use cni_conformance::compare::walk::compare;

use crate::differential::reference::{self, say};
use crate::differential::table::cases;

/// How many rows are worked on at the same time.
const WORKERS: usize = 4;

#[test]
fn the_same_configurations_make_the_same_state_and_results() {
    let Some(reference) = reference::find("state and results of the table's configurations") else { return };
    let (rows, beyond): (Vec<ComparisonRow>, Vec<ComparisonRow>) =
        cases().into_iter().partition(|case| case.needs <= reference.level);
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
