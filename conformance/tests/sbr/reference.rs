//! What the reference has made is ours to check and to end, and the other way round.

use std::io::{Write, stderr};
use std::path::PathBuf;

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::binaries;
use serde_json::json;

use crate::sbr::setup::Routed;

/// The reference's plugins: those of `CNI_REFERENCE_DIR`, or Debian's.
fn reference() -> Option<PathBuf> {
    let folder = binaries::reference().unwrap_or_else(|| PathBuf::from("/usr/lib/cni"));
    let found = folder.join("sbr").is_file();
    if !found {
        let text = "NOT COMPARED: sbr: install Debian's containernetworking-plugins or set CNI_REFERENCE_DIR";
        writeln!(stderr(), "{text}").expect("write to stderr");
    }
    found.then_some(folder)
}

/// The routes that packets of each family find. The reference copies those of the other family as well, which no rule leads
/// to.
#[test]
fn both_make_the_same_rules_and_the_same_ways() {
    let Some(reference) = reference() else { return };
    let [theirs, ours] = [reference, binaries::under_test()].map(|folder| {
        let routed = Routed::new();
        routed.call(Add, &json!({})).binaries(&folder).run().expect_success();
        let mut ways = [routed.routes("-4", "100"), routed.routes("-6", "101")].concat();
        // Link-local packets go by the main table.
        ways.retain(|route| !route.starts_with("fe80::/64"));
        (routed.rules(), ways, routed.routes("-4", "main"))
    });
    assert_eq!(ours, theirs);
}

#[test]
fn each_ends_what_the_other_has_made() {
    let Some(reference) = reference() else { return };
    let ours = binaries::under_test();
    for (adds, deletes) in [(&ours, &reference), (&reference, &ours)] {
        let routed = Routed::new();
        routed.call(Add, &json!({})).binaries(adds).run().expect_success();
        routed.succeeds(&[Check], &json!({}));
        routed.call(Del, &json!({})).binaries(deletes).run().expect_success();
        assert_eq!(routed.rules(), [""; 0]);
    }
}

/// Ours finds the rules of the reference's ADD, and makes them its own.
#[test]
fn del_of_ours_ends_what_both_have_made() {
    let Some(reference) = reference() else { return };
    let routed = Routed::new();
    routed.container.sh("ip rule add from 10.90.0.2 lookup 100 priority 501");
    let before = routed.rules();
    routed.call(Add, &json!({})).binaries(&reference).run().expect_success();
    routed.succeeds(&[Add, Check, Del], &json!({}));
    assert_eq!(routed.rules(), before);
}
