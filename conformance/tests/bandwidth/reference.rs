//! What the reference has limited is ours to check and to end, and the other way round.

use std::io::{Write, stderr};
use std::path::PathBuf;

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::binaries;
use serde_json::{Value, json};

use crate::bandwidth::setup::{IFB, Limited, both, sending};

/// The reference's plugins: those of `CNI_REFERENCE_DIR`, or Debian's.
fn reference() -> Option<PathBuf> {
    let folder = binaries::reference().unwrap_or_else(|| PathBuf::from("/usr/lib/cni"));
    let found = folder.join("bandwidth").is_file();
    if !found {
        let text = "NOT COMPARED: bandwidth: install Debian's containernetworking-plugins or set CNI_REFERENCE_DIR";
        writeln!(stderr(), "{text}").expect("write to stderr");
    }
    found.then_some(folder)
}

fn rows() -> [Value; 4] {
    [
        both(),
        sending(),
        json!({"ingressRate": 8_000_000, "ingressBurst": 160_000}),
        json!({"egressRate": 100_000_000, "egressBurst": 4_294_967_295_u64}),
    ]
}

/// Without the second of the reference's two actions, which no packet reaches.
fn seen(limited: &Limited) -> Vec<String> {
    let unreached =
        |line: &String| line.contains("action order 2") || line.contains(" pipe") || line.contains("index ");
    let lines = limited.traffic_control().into_iter().filter(|line| !unreached(line));
    lines.map(|line| line.replace(" stolen", "")).collect()
}

#[test]
fn both_make_the_same_of_the_kernel() {
    let Some(reference) = reference() else { return };
    for keys in rows() {
        let [theirs, ours] = [reference.clone(), binaries::under_test()].map(|folder| {
            let limited = Limited::new();
            let result = limited.call(Add, &keys).binaries(&folder).run().result();
            let reported = result["interfaces"][2]["name"].clone();
            (seen(&limited), reported, limited.links("ifb"))
        });
        assert_eq!(ours, theirs, "{keys}");
    }
}

#[test]
fn each_checks_and_ends_what_the_other_has_limited() {
    let Some(reference) = reference() else { return };
    let ours = binaries::under_test();
    for keys in rows() {
        for (adds, deletes) in [(&ours, &reference), (&reference, &ours)] {
            let limited = Limited::new();
            limited.call(Add, &keys).binaries(adds).run().expect_success();
            for checks in [&ours, &reference] {
                limited.call(Check, &keys).binaries(checks).run().expect_success();
            }
            limited.call(Del, &keys).binaries(deletes).run().expect_success();
            assert_eq!(limited.links("ifb"), [""; 0], "{keys}");
        }
    }
}

/// As the page about moving says: below 15.625 Mbit/s the reference expects the number that wraps around.
#[test]
fn the_reference_does_not_accept_numbers_that_do_not_wrap_and_deletes_them() {
    let Some(reference) = reference() else { return };
    for (rate, accepted) in [(15_624_000, false), (15_626_000, true)] {
        let limited = Limited::new();
        let keys = json!({"egressRate": rate, "egressBurst": 4_294_967_295_u64});
        limited.succeeds(&[Add, Check], &keys);
        let check = limited.call(Check, &keys).binaries(&reference).run();
        if accepted {
            check.expect_success();
        } else {
            assert_eq!(check.error().msg, "Buffer doesn't match", "{check}");
        }
        limited.call(Del, &keys).binaries(&reference).run().expect_success();
        assert_eq!(limited.links("ifb"), [""; 0]);
    }
}

/// Its numbers wrap around; the container runs, and is to pass CHECK.
#[test]
fn the_references_wrapped_numbers_pass_check() {
    let Some(reference) = reference() else { return };
    let limited = Limited::new();
    let keys = json!({"egressRate": 1_000_000, "egressBurst": 4_294_967_295_u64});
    limited.call(Add, &keys).binaries(&reference).run().expect_success();
    limited.succeeds(&[Check, Del], &keys);
    assert_eq!(limited.traffic_control(), [""; 0]);
}

/// The reference says nowhere whose an ifb is; but only the first interface's packets go there.
#[test]
fn an_ifb_of_the_reference_is_left_to_the_interface_that_uses_it() {
    let Some(reference) = reference() else { return };
    let limited = Limited::with_second_interface();
    limited.call(Add, &sending()).binaries(&reference).run().expect_success();
    limited.call(Del, &sending()).ifname("net1").run().expect_success();
    assert_eq!(limited.links("ifb"), [IFB]);
    limited.call(Add, &sending()).ifname("net1").run().expect_success();
    assert_eq!(limited.links("ifb").len(), 2);
    limited.succeeds(&[Check, Del], &sending());
    limited.call(Check, &sending()).ifname("net1").run().expect_success();
}
