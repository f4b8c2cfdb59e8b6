//! `cni-conformance compare`: two sets of plugins live through the same random histories.

mod accepted;
mod defects;
mod needed;
mod program;

use cni_conformance::binaries;

use program::{OTHERS, compare};

#[test]
fn the_same_plugins_live_the_same_lives() {
    let ours = binaries::under_test();
    let outcome = compare(&ours, &ours, &["--seed", "1", "--cases", "8"]);
    outcome.ends_with(0, "seed 1: no difference in 8 histories");
    compare(&ours, &ours, &["--seed", "2", "--cases", "4"]).ends_with(0, "seed 2: no difference in 4 histories");
}

#[test]
fn wrong_arguments_are_distinguished_from_differences() {
    let ours = binaries::under_test();
    let nowhere = std::path::Path::new("/nowhere");
    compare(&ours, nowhere, &[]).ends_with(2, "--reference /nowhere: No such file");
    compare(nowhere, &ours, &[]).ends_with(2, "--plugins /nowhere: No such file");
    compare(&ours, std::path::Path::new(OTHERS), &[]).ends_with(2, "/bridge: No such file");
    for (history, why) in [
        ("{}", "--history: this is no history: missing field"),
        (
            r#"{"iptables":"nft","networks":{},"containers":{},"steps":["DEL c0"]}"#,
            "--history: the history has nothing of the name \"c0\"",
        ),
        (
            r#"{"iptables":"nft","networks":{},"containers":{},"steps":["EAT c0"]}"#,
            "\"EAT c0\" is no step of a history",
        ),
    ] {
        compare(&ours, &ours, &["--history", history]).ends_with(2, why);
    }
}
