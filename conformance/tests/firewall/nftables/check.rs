//! CHECK names what is missing and changes nothing; ADD restores it in its place.

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::{Sandbox, Standalone, State, Verb};
use serde_json::json;

use crate::firewall::nftables::layout::FORWARD;
use crate::firewall::nftables::{DUAL, TABLE, V4, firewall, nft, table};

/// The code of a CHECK that found something missing.
const CHECK_FAILED: u64 = 100;

/// Takes the rule with these words out of a chain.
fn delete_rule(sandbox: &Sandbox, chain: &str, words: &str) {
    let listed = sandbox.sh(&format!("nft -a list chain {TABLE} {chain}"));
    let line = listed.lines().find(|line| line.trim().starts_with(words));
    let line = line.unwrap_or_else(|| panic!("no rule {words:?} in {listed}"));
    let handle = line.rsplit(' ').next().expect("a handle");
    nft(sandbox, &format!("delete rule {TABLE} {chain} handle {handle}"));
}

#[track_caller]
fn fails(sandbox: &Sandbox, lone: &Standalone<'_>, says: &[&str]) {
    let before = State::of_host(sandbox);
    let outcome = lone.call(Verb::Check).run();
    for words in says {
        outcome.expect_error(CHECK_FAILED, words);
    }
    assert_same(&before, &State::of_host(sandbox));
}

/// The words of a rule stand in the error as `nft` writes them.
#[test]
fn a_missing_rule_is_named_and_mended() {
    let stage_1 = [r#"iifname "br0" oifname != "br0" jump isolation-stage-2"#, r#"iifname "br0" oifname "br0" drop"#];
    let rows = FORWARD.map(|rule| ("forward", rule)).into_iter();
    let rows = rows.chain([("admin", "jump CNI-ADMIN"), ("isolation-stage-2", r#"oifname "br0" drop"#)]);
    let rows = rows.chain(stage_1.map(|rule| ("isolation-stage-1", rule)));
    for_each(rows.map(|row| (format!("{row:?}"), row)), |(chain, rule)| {
        let sandbox = Sandbox::new();
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({"ingressPolicy": "isolated"}));
        lone.add();
        let whole = table(&sandbox);
        delete_rule(&sandbox, chain, rule);
        fails(&sandbox, &lone, &[rule, &format!("{TABLE} {chain}")]);
        lone.add();
        lone.check();
        // Within the isolation stages and among admin chains the order does not matter.
        if chain == "forward" {
            assert_eq!(table(&sandbox), whole);
        }
    });
}

#[test]
fn a_missing_address_is_named_and_mended() {
    for (set, address) in [("containers_v4", "10.88.0.5"), ("containers_v6", "fd00:88::5")] {
        let sandbox = Sandbox::new();
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
        let neighbour = firewall(&sandbox, "ctr2", &["10.88.0.6/24", "fd00:88::6/64"], &json!({}));
        lone.add();
        neighbour.add();
        let whole = table(&sandbox);
        nft(&sandbox, &format!("delete element {TABLE} {set} {{ {address} }}"));
        fails(&sandbox, &lone, &[&format!("{TABLE} {set}"), address]);
        neighbour.check();
        lone.add();
        lone.check();
        assert_eq!(table(&sandbox), whole);
    }
}

#[test]
fn a_missing_table_chain_or_set_is_no_worse() {
    let rows: [(&str, &[&str]); 4] = [
        ("the table", &["delete table inet cni_firewall"]),
        ("all rules", &["flush table inet cni_firewall"]),
        ("the addresses", &["flush set inet cni_firewall containers_v4"]),
        ("everything", &["flush ruleset"]),
    ];
    for_each(rows, |commands| {
        let sandbox = Sandbox::new();
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({"ingressPolicy": "same-bridge"}));
        lone.add();
        let whole = table(&sandbox);
        for command in commands {
            nft(&sandbox, command);
        }
        fails(&sandbox, &lone, &["not found"]);
        lone.add();
        lone.check();
        assert_eq!(table(&sandbox), whole);
    });
}

/// A policy that is not configured is not missed, and neither is another container's admin chain.
#[test]
fn what_is_not_configured_is_not_missed() {
    let sandbox = Sandbox::new();
    let open = firewall(&sandbox, "ctr1", V4, &json!({}));
    let other = firewall(
        &sandbox,
        "ctr2",
        &["10.88.0.6/24"],
        &json!({"ingressPolicy": "isolated", "iptablesAdminChainName": "NOMAD-ADMIN"}),
    );
    open.add();
    other.add();
    for (chain, rule) in
        [("isolation-stage-1", "iifname"), ("isolation-stage-2", "oifname"), ("admin", "jump NOMAD-ADMIN")]
    {
        delete_rule(&sandbox, chain, rule);
    }
    open.check();
    fails(&sandbox, &other, &["not found"]);
    other.del();
    open.check();
}

#[test]
fn what_others_add_is_not_minded() {
    let sandbox = Sandbox::new();
    let lone = firewall(&sandbox, "ctr1", DUAL, &json!({"ingressPolicy": "same-bridge"}));
    lone.add();
    for command in [
        "add rule inet cni_firewall CNI-ADMIN ip saddr 192.0.2.7 drop",
        "add rule inet cni_firewall forward counter",
        "insert rule inet cni_firewall isolation-stage-1 iifname \"mine0\" accept",
        "add chain inet cni_firewall mine",
        "add element inet cni_firewall containers_v4 { 10.99.0.1 }",
        "add table inet mine",
    ] {
        nft(&sandbox, command);
    }
    let before = State::of_host(&sandbox);
    lone.check();
    assert_same(&before, &State::of_host(&sandbox));
}

#[test]
fn check_after_del_and_without_a_result_fails() {
    let sandbox = Sandbox::new();
    let lone = firewall(&sandbox, "ctr1", DUAL, &json!({}));
    fails(&sandbox, &lone, &["not found"]);
    lone.add();
    lone.clone().with("prevResult", json!(null)).call(Verb::Check).run().expect_error(7, "missing prevResult");
    lone.del();
    fails(&sandbox, &lone, &["not found", "10.88.0.5"]);
}
