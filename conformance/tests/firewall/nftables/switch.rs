//! The back end is another one by the time of CHECK or DEL: what was made is found where it was made.

use cni_conformance::cases::for_each;
use cni_conformance::{Sandbox, Standalone, Verb};
use serde_json::{Value, json};

use crate::firewall::nftables::{DUAL, claims, elements, firewall, forget_claims, rules_of_iptables};

/// What an administrator may have written by then.
fn others() -> [(&'static str, Value); 6] {
    [
        ("iptables", json!("iptables")),
        ("firewalld", json!("firewalld")),
        ("none", json!("none")),
        ("one that there is not", json!("bogus")),
        ("a number", json!(7)),
        ("nothing", json!(null)),
    ]
}

#[track_caller]
fn assert_nothing_left(sandbox: &Sandbox) {
    let listed = sandbox.sh("nft --stateless list ruleset");
    let left = listed.contains("10.88.0.5") || listed.contains("fd00:88::5");
    assert!(!left && rules_of_iptables(sandbox).is_empty(), "{listed}");
    assert_eq!(claims(sandbox), [""; 0]);
}

fn with_backend<'s>(lone: &Standalone<'s>, backend: Value) -> Standalone<'s> {
    lone.clone().with("backend", backend)
}

#[test]
fn del_takes_addresses_out_of_the_sets_whatever_the_backend_is_by_now() {
    for_each(others(), |backend| {
        for prev_result in [true, false] {
            let sandbox = Sandbox::new();
            let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
            lone.add();
            let mut del = with_backend(&lone, backend.clone());
            if !prev_result {
                del = del.with("prevResult", json!(null));
            }
            let outcome = del.call(Verb::Del).traced(true).run();
            outcome.expect_success();
            assert!(outcome.children().is_empty(), "{:?}", outcome.children());
            assert_nothing_left(&sandbox);
        }
    });
}

#[test]
fn del_removes_rules_of_iptables_where_the_backend_is_nftables_by_now() {
    for prev_result in [true, false] {
        let sandbox = Sandbox::new();
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
        with_backend(&lone, json!("iptables")).add();
        assert_eq!(rules_of_iptables(&sandbox).len(), 4);
        if prev_result {
            lone.del()
        } else {
            lone.clone().with("prevResult", json!(null)).del()
        }
        assert_nothing_left(&sandbox);
    }
}

/// The reference takes `nftables` for a word that it does not know, and uses iptables; it writes nothing down.
#[test]
fn del_removes_rules_of_iptables_that_nobody_wrote_down() {
    let sandbox = Sandbox::new();
    let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
    with_backend(&lone, json!("iptables")).add();
    forget_claims(&sandbox);
    lone.check();
    lone.del();
    assert_nothing_left(&sandbox);
}

#[test]
fn del_takes_what_was_added_to_both() {
    for order in [["nftables", "iptables"], ["iptables", "nftables"]] {
        let sandbox = Sandbox::new();
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
        for backend in order {
            with_backend(&lone, json!(backend)).add();
        }
        assert_eq!((elements(&sandbox).len(), rules_of_iptables(&sandbox).len()), (2, 4), "{order:?}");
        lone.clone().with("prevResult", json!(null)).del();
        assert_nothing_left(&sandbox);
    }
}

/// Who made something last is asked.
#[test]
fn check_looks_where_add_has_made_something() {
    for (made_by, checked_by) in [("nftables", "iptables"), ("iptables", "nftables")] {
        let sandbox = Sandbox::new();
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
        with_backend(&lone, json!(made_by)).add();
        let checked = with_backend(&lone, json!(checked_by));
        checked.check();
        match made_by {
            "nftables" => drop(sandbox.sh("nft flush set inet cni_firewall containers_v6")),
            _ => drop(sandbox.sh("ip6tables -F CNI-FORWARD")),
        }
        checked.call(Verb::Check).run().expect_error(100, "not found");
        checked.add();
        checked.check();
        checked.del();
        assert_nothing_left(&sandbox);
    }
}

#[test]
fn gc_takes_what_was_made_by_either() {
    let sandbox = Sandbox::new();
    let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
    let other = firewall(&sandbox, "ctr2", &["10.88.0.6/24"], &json!({})).with("backend", json!("iptables"));
    lone.add();
    other.add();
    other.gc(&[]);
    assert_nothing_left(&sandbox);
}

/// An address that went from a container of one back end to a container of the other.
#[test]
fn each_owner_of_an_address_leaves_nothing() {
    for (first, second) in [("nftables", "iptables"), ("iptables", "nftables")] {
        let sandbox = Sandbox::new();
        let old = firewall(&sandbox, "old", DUAL, &json!({})).with("backend", json!(first));
        let new = firewall(&sandbox, "new", DUAL, &json!({})).with("backend", json!(second));
        old.add();
        new.add();
        old.del();
        new.check();
        new.del();
        assert_nothing_left(&sandbox);
    }
}
