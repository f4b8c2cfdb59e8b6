//! Ours against the reference: nothing differs but what the tables name with a reason.

use cni_conformance::{binaries, reference};

use crate::compare::program::compare;

#[test]
fn the_reference_differs_in_nothing_that_is_not_accepted() {
    let Some(reference) = reference::find("histories of random networks") else { return };
    let ours = binaries::under_test();
    let run = compare(&ours, &reference.folder, &["--seed", "1", "--cases", "16"]);
    run.ends_with(0, "seed 1: no difference in 16 histories");
    if run.said.contains("seen once") {
        reference::say(&run.said);
    }
    compare(&ours, &reference.folder, &["--seed", "1", "--cases", "16", "--strict", "--trials", "0"])
        .ends_with(1, "<- here the two differ");
}
