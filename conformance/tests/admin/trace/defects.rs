//! One defect after the other on one host, in both families.

use super::{LOST, TracedHost, V4, V6};
use crate::admin::tool;

/// Goes through the defects of a text, one host for all. Each has four lines: how it is made, what is traced, how the last line begins,
/// and how it is mended; `-` is nothing.
fn all_of(host: &TracedHost, defects: &str) {
    for defect in defects.trim_end().split("\n\n") {
        let [make, words, says, mend] = defect.lines().collect::<Vec<_>>()[..] else { panic!("{defect:?}") };
        host.sh(make.trim_matches('-'));
        host.probe(words, LOST, says);
        if mend == "repair" {
            tool(&host.sandbox, &["repair"]).expect_success();
        } else {
            host.sh(mend.trim_matches('-'));
        }
    }
}

#[test]
fn each_defect_is_named_in_both_families() {
    for values in [V4, V6] {
        let host = TracedHost::with_firewall(values);
        host.probe(
            "8080",
            LOST,
            "it came to container $id at $own80, where no program listens: start the program, or correct containerPort",
        );
        let on_loopback = host.serve(&host.web, true);
        let says = "it came to container $id at $own80, whose program listens only on its loopback address: let the program listen on 0.0.0.0 or ::";
        host.probe("8080", LOST, says);
        drop(on_loopback);
        let _servers = [host.serve(&host.web, false), host.serve(&host.outside, false)];
        all_of(&host, include_str!("defects.txt"));
    }
    let host = TracedHost::with_firewall(V4);
    let _server = host.serve(&host.web, false);
    // What the host has routed keeps its mark in all families of tables.
    all_of(&host, include_str!("defects-v4.txt"));
}
