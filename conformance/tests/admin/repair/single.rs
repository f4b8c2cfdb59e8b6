//! Single rules, elements and chains that go: each one is missed, and comes back alone.

use cni_conformance::state::diff;
use cni_conformance::{Sandbox, State};

use crate::admin::repair::{Backend, RepairedContainer, assert_said, repair, shell, state};

/// A rule that stood among others comes back behind them, so the order may be another.
#[track_caller]
fn assert_same_rules(before: &State, after: &State, without: &str) {
    let sorted = |state: &State| {
        let mut lines = state.lines();
        lines.sort();
        lines
    };
    assert!(sorted(before) == sorted(after), "without {without}:\n{}", diff(before, after).join("\n"));
}

/// Takes one thing away, and requires that it is missed and put back, and nothing besides.
fn take_and_repair(sandbox: &Sandbox, guests: &[RepairedContainer<'_>], before: &State, take: &str, checked: bool) {
    shell(sandbox, take);
    assert_eq!(guests.iter().all(RepairedContainer::is_whole), !checked, "CHECK after {take}");
    let dry = repair(sandbox, &["--dry-run"]);
    assert!(dry.succeeded() && dry.stdout().contains(": missing: "), "after {take}: {dry}");
    let repaired = repair(sandbox, &[]);
    assert!(repaired.succeeded() && repaired.stdout().contains(": repaired: "), "after {take}: {repaired}");
    assert_same_rules(before, &state(sandbox, guests), take);
}

/// Requires that nothing is missing, for CHECK and for `repair`.
fn assert_whole(sandbox: &Sandbox, guests: &[RepairedContainer<'_>]) {
    guests.iter().for_each(RepairedContainer::check);
    assert_said(&repair(sandbox, &[]), &vec!["nothing missing"; guests.len()]);
}

/// Two containers, so that there are neighbours' rules to leave alone.
fn two<'s>(sandbox: &'s Sandbox, backend: Backend) -> [RepairedContainer<'s>; 2] {
    let list = backend.list();
    [("first", 8080), ("second", 8081)].map(|(name, port)| RepairedContainer::add(sandbox, &list, name, port))
}

fn every_rule_of_iptables(backend: Backend) {
    let sandbox = backend.sandbox();
    let guests = two(&sandbox, backend);
    let before = state(&sandbox, &guests);
    for (program, table) in [("iptables", "nat"), ("iptables", "filter"), ("ip6tables", "nat"), ("ip6tables", "filter")]
    {
        let rules = sandbox.sh(&format!("{program} -t {table} -S"));
        let rules: Vec<&str> = rules.lines().filter_map(|line| line.strip_prefix("-A ")).collect();
        assert!(rules.len() >= 6, "{program} {table}: {rules:#?}");
        for rule in rules {
            take_and_repair(&sandbox, &guests, &before, &format!("{program} -t {table} -D {rule}"), true);
        }
        assert_whole(&sandbox, &guests);
    }
}

#[test]
fn every_rule_of_iptables_in_nf_tables_is_missed() {
    every_rule_of_iptables(Backend::Nft);
}

#[test]
fn every_rule_of_legacy_iptables_is_missed() {
    every_rule_of_iptables(Backend::Legacy);
}

/// The rules of a ruleset with their handles, as `family table chain handle N`.
fn rules(sandbox: &Sandbox) -> Vec<String> {
    let (mut table, mut chain) = (String::new(), String::new());
    let mut found = Vec::new();
    for line in sandbox.sh("nft -a --stateless list ruleset").lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["table", family, name, ..] => table = format!("{family} {name}"),
            ["chain", name, ..] => name.clone_into(&mut chain),
            ["set" | "map", ..] => chain.clear(),
            [.., "#", "handle", number] if !chain.is_empty() => found.push(format!("{table} {chain} handle {number}")),
            _ => {}
        }
    }
    found
}

/// A restored rule has another handle, so all are listed again before each one is deleted.
#[test]
fn every_rule_of_nf_tables_is_missed() {
    let sandbox = Backend::Native.sandbox();
    let guests = two(&sandbox, Backend::Native);
    let before = state(&sandbox, &guests);
    let count = rules(&sandbox).len();
    assert!(count >= 40, "{:#?}", rules(&sandbox));
    for index in 0..count {
        let rule = &rules(&sandbox)[index];
        // The guard of the host's loopback is portmap's own, and not what carries a container's traffic.
        let checked = !rule.starts_with("inet cni_plugins_localnet");
        take_and_repair(&sandbox, &guests, &before, &format!("nft delete rule {rule}"), checked);
    }
    assert_whole(&sandbox, &guests);
}

#[test]
fn every_element_of_a_set_and_a_whole_table_are_missed() {
    let sandbox = Backend::Native.sandbox();
    let guests = two(&sandbox, Backend::Native);
    let before = state(&sandbox, &guests);
    let tables =
        ["inet cni_plugins_masquerade", "bridge nat", "inet cni_firewall", "ip cni_hostport", "ip6 cni_hostport"];
    let elements = ["containers_v4 { 172.26.64.2 }", "containers_v6 { fd00:a110:c8::3 }"];
    let tables = tables.iter().map(|table| format!("nft delete table {table}"));
    for take in tables.chain(elements.map(|element| format!("nft 'delete element inet cni_firewall {element}'"))) {
        take_and_repair(&sandbox, &guests, &before, &take, true);
    }
    take_and_repair(&sandbox, &guests, &before, "nft delete table inet cni_plugins_localnet", false);
    assert_whole(&sandbox, &guests);
}
