//! ADD, CHECK, DEL, GC and STATUS over the life of a container, and which programs they need.

use cni_conformance::{Sandbox, Standalone, Verb, at_once};
use serde_json::{Value, json};

use crate::portmap::nftables::{DUAL, portmap, ruleset, table, tcp, udp};

/// A list of directories without any program.
const NO_PROGRAMS: &str = "/run/conformance";

fn one<'s>(sandbox: &'s Sandbox, keys: Value) -> Standalone<'s> {
    portmap(sandbox, "ctr1", DUAL, json!([tcp(8080, 80), udp(8080, 80)]), &keys)
}

/// The reference adds all rules once more.
#[test]
fn a_second_add_changes_nothing() {
    let sandbox = Sandbox::new();
    let lone = one(&sandbox, json!({}));
    lone.add();
    let first = ruleset(&sandbox);
    lone.add();
    assert_eq!(ruleset(&sandbox), first);
}

#[test]
fn a_container_that_moved_leaves_nothing_stale() {
    let sandbox = Sandbox::new();
    one(&sandbox, json!({})).add();
    let moved =
        portmap(&sandbox, "ctr1", &["10.88.0.9/24", "fd00:88::9/64"], json!([tcp(8081, 80)]), &json!({"snat": false}));
    moved.add();
    let now = ruleset(&sandbox);
    for gone in ["10.88.0.5", "fd00:88::5", "8080", "masquerade"] {
        assert!(!now.contains(&format!("{gone} ")) && !now.contains(&format!("{gone}-")), "{gone}: {now}");
    }
    moved.check();
}

/// The reference's rules are keyed by the container alone: its DEL takes those of both networks.
#[test]
fn the_networks_of_a_container_are_kept_apart() {
    let sandbox = Sandbox::new();
    let first = one(&sandbox, json!({}));
    let second =
        portmap(&sandbox, "ctr1", &["10.99.0.5/24"], json!([tcp(9090, 90)]), &json!({})).in_network("n2", "eth1");
    let again =
        portmap(&sandbox, "ctr1", &["10.88.0.7/24"], json!([tcp(9091, 91)]), &json!({})).in_network("n1", "eth1");
    for lone in [&first, &second, &again] {
        lone.add();
    }
    first.del();
    for lone in [&second, &again] {
        lone.check();
    }
    assert!(!ruleset(&sandbox).contains("10.88.0.5"));
    for lone in [&second, &again] {
        lone.del();
    }
    assert!(!ruleset(&sandbox).contains("ctr1"));
}

#[test]
fn no_program_is_run() {
    let sandbox = Sandbox::new();
    let lone = one(&sandbox, json!({}));
    for verb in [Verb::Add, Verb::Check] {
        let outcome = lone.call(verb).traced(true).run();
        outcome.expect_success();
        assert!(outcome.children().is_empty(), "{verb:?}: {:?}", outcome.children());
    }
}

/// The reference cannot do without either program, and its DEL leaves everything when `nft` is missing.
#[test]
fn with_neither_program_in_path_the_automatic_choice_works() {
    let sandbox = Sandbox::new();
    let lone = one(&sandbox, json!({"backend": null}));
    let without = |verb| lone.call(verb).env("PATH", NO_PROGRAMS).run();
    without(Verb::Add).expect_success();
    assert!(table(&sandbox, "ip").contains("dnat to 10.88.0.5:80"));
    without(Verb::Check).expect_success();
    without(Verb::Del).expect_success();
    assert!(!ruleset(&sandbox).contains("ctr1"));
    without(Verb::Del).expect_success();
}

#[test]
fn with_iptables_in_path_the_automatic_choice_is_iptables() {
    let sandbox = Sandbox::new();
    let lone = one(&sandbox, json!({"backend": null}));
    lone.add();
    assert!(!ruleset(&sandbox).contains("cni_hostport"));
    assert!(sandbox.sh("iptables -t nat -S").contains("--to-destination 10.88.0.5:80"));
}

/// The reference reports success, and the rules stay.
#[test]
fn del_removes_what_the_other_backend_made() {
    for (made_by, removed_by) in [("iptables", "nftables"), ("nftables", "iptables")] {
        let sandbox = Sandbox::new();
        one(&sandbox, json!({"backend": made_by})).add();
        one(&sandbox, json!({"backend": removed_by})).del();
        let rules = ruleset(&sandbox) + &sandbox.sh("iptables -t nat -S") + &sandbox.sh("ip6tables -t nat -S");
        assert!(!rules.contains("ctr1") && !rules.contains("10.88.0.5"), "made by {made_by}: {rules}");
    }
}

#[test]
fn del_needs_only_names() {
    let sandbox = Sandbox::new();
    one(&sandbox, json!({})).add();
    let other = portmap(&sandbox, "ctr2", &["10.88.0.6/24"], json!([tcp(8080, 80)]), &json!({}));
    other.add();
    let mut forgetful = one(&sandbox, json!({"prevResult": null, "runtimeConfig": null}));
    forgetful.config["conditionsV4"] = json!(["-s", "10.0.0.0/8"]);
    forgetful.del();
    assert!(!ruleset(&sandbox).contains("ctr1"));
    other.check();
}

/// The reference only counts the rules.
#[test]
fn check_names_any_rule_that_is_missing_and_writes_nothing() {
    let sandbox = Sandbox::new();
    let lone = one(&sandbox, json!({}));
    for (chain, word) in [
        ("hostports_all", "jump hostports"),
        ("prerouting", "fib daddr type local"),
        ("output", "fib daddr type local"),
        ("hostports", "udp dport 8080"),
        ("masquerading", "ip saddr 127.0.0.1"),
    ] {
        lone.add();
        let listed = sandbox.sh(&format!("nft -a list chain ip cni_hostport {chain}"));
        let line = listed.lines().find(|line| line.contains(word)).expect("the rule");
        let handle = line.rsplit(' ').next().expect("a handle");
        sandbox.sh(&format!("nft delete rule ip cni_hostport {chain} handle {handle}"));
        let before = ruleset(&sandbox);
        let outcome = lone.call(Verb::Check).run();
        let error = outcome.expect_error(100, word);
        assert!(error.msg.contains(&format!("ip cni_hostport {chain}")), "{}", error.msg);
        assert_eq!(ruleset(&sandbox), before);
    }
    lone.add();
    lone.check();
}

/// In other words than those by which `nft` lists them.
#[test]
fn conditions_in_any_spelling_are_found_by_check() {
    let sandbox = Sandbox::new();
    for words in [
        json!(["ip", "saddr", "192.0.2.1"]),
        json!(["ip", "saddr", "192.0.2.1/32"]),
        json!(["ip saddr 10.1.2.3/8"]),
        json!(["ip", "saddr", "!=", "192.0.2.0/24"]),
        json!(["ip", "saddr", "{", "192.0.2.1,", "192.0.2.2", "}"]),
        json!(["ip", "saddr", "192.0.2.1-192.0.2.5"]),
        json!(["ip", "saddr", "192.0.2.1", "ip", "daddr", "!=", "127.0.0.0/8"]),
        json!(["iif", "lo"]),
        json!(["iifname", "!=", "\"eth9\"", "ct", "state", "new"]),
        json!(["meta", "mark", "5"]),
        json!(["fib", "daddr", "type", "local"]),
        json!(["counter"]),
        json!(["limit", "rate", "10/second"]),
    ] {
        let lone = one(&sandbox, json!({"conditionsV4": words}));
        lone.add();
        let made = ruleset(&sandbox);
        let chain = made.split_whitespace().find(|word| word.starts_with("dnat-")).expect("a chain of its own");
        lone.check();
        lone.add();
        lone.check();
        assert_eq!(ruleset(&sandbox), made, "{words}");
        let listed = sandbox.sh(&format!("nft -a list chain ip cni_hostport {chain}"));
        let line = listed.lines().find(|line| line.contains("tcp dport 8080")).expect("the rule");
        let handle = line.rsplit(' ').next().expect("a handle");
        sandbox.sh(&format!("nft delete rule ip cni_hostport {chain} handle {handle}"));
        lone.call(Verb::Check).run().expect_error(100, "ip cni_hostport dnat-");
        lone.add();
        lone.check();
        lone.del();
        assert!(!ruleset(&sandbox).contains("dnat-"), "{words}");
    }
}

#[test]
fn an_add_that_fails_in_the_second_family_undoes_the_first() {
    let sandbox = Sandbox::new();
    let words = json!(["no", "such", "words"]);
    let lone = one(&sandbox, json!({"conditionsV6": words}));
    lone.call(Verb::Add).run().expect_error(104, "nft");
    assert!(!ruleset(&sandbox).contains("ctr1"), "{}", ruleset(&sandbox));
    assert!(!ruleset(&sandbox).contains("10.88.0.5"));
}

#[test]
fn options_of_iptables_are_refused() {
    let sandbox = Sandbox::new();
    let lone = one(&sandbox, json!({"externalSetMarkChain": "X", "conditionsV6": ["-s", "::1"]}));
    let message = "nftables backend was requested but configuration contains iptables-specific options \
                   [externalSetMarkChain conditionsV6]";
    for verb in [Verb::Add, Verb::Check] {
        lone.call(verb).run().expect_error(7, message);
    }
    assert!(!ruleset(&sandbox).contains("cni_hostport"));
}

#[test]
fn gc_removes_containers_that_are_no_more_and_status_answers() {
    let sandbox = Sandbox::new();
    let (lone, other) = (one(&sandbox, json!({})), one(&sandbox, json!({})).in_network("n2", "eth0"));
    lone.add();
    other.add();
    let mut gc = one(
        &sandbox,
        json!({"cniVersion": "1.1.0", "cni.dev/valid-attachments": [
            {"containerID": "ctr1", "ifname": "eth0"}
        ]}),
    );
    gc.call(Verb::Status).run().expect_success();
    gc.call(Verb::Gc).run().expect_success();
    lone.check();
    gc.config["cni.dev/valid-attachments"] = json!([{"containerID": "ctr1", "ifname": "eth9"}]);
    gc.call(Verb::Gc).run().expect_success();
    let missing = lone.call(Verb::Check).run();
    missing.expect_error(100, "ipv4 dnat");
    other.check();
}

#[test]
fn first_containers_that_come_at_once_share_one_skeleton() {
    let sandbox = Sandbox::new();
    let ids = ["c1", "c2", "c3", "c4", "c5", "c6"];
    let lones = ids.map(|id| portmap(&sandbox, id, DUAL, json!([tcp(8080, 80)]), &json!({})));
    let all = |verb| {
        let calls: Vec<_> = lones.iter().map(|lone| lone.call(verb)).collect();
        for outcome in at_once(&calls) {
            outcome.expect_success();
        }
    };
    all(Verb::Add);
    all(Verb::Check);
    for family in ["ip", "ip6"] {
        let listed = table(&sandbox, family);
        assert_eq!(listed.matches("fib daddr type local jump hostports_all").count(), 2, "{listed}");
        assert_eq!(listed.matches("jump hostports\n").count(), 1, "{listed}");
    }
    all(Verb::Del);
    let left = ruleset(&sandbox);
    assert!(!left.contains("comment \"c") && !left.contains(" dnat to "), "{left}");
}
