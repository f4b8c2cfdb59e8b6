//! `ipMasqBackend: "nftables"`: the reference's own table.
//!
//! Goldens are what `nft` lists after the reference's transaction, carried out in a sandbox of its
//! own, so that the version of `nft` does not matter.

use std::net::IpAddr;

use cni_conformance::cases::for_each;
use cni_conformance::traffic::{Echo, Transport, ask};
use cni_conformance::{Outside, Sandbox};
use serde_json::{Value, json};

use crate::bridge::keys::masquerade::all_rules;
use crate::bridge::setup::{Port, V4, V6, network, with};

const TABLE: &str = "inet cni_plugins_masquerade";

/// What is there with or without containers.
const SKELETON: &str = r#"
add table inet cni_plugins_masquerade { comment "Masquerading for plugins from github.com/containernetworking/plugins" ; }
add chain inet cni_plugins_masquerade masq_checks { comment "Masquerade traffic from certain IPs to any (non-multicast) IP outside their subnet" ; }
add chain inet cni_plugins_masquerade postrouting { type nat hook postrouting priority 100 ; }
add rule inet cni_plugins_masquerade postrouting ip daddr == 224.0.0.0/4 return
add rule inet cni_plugins_masquerade postrouting ip6 daddr == ff00::/8 return
add rule inet cni_plugins_masquerade postrouting goto masq_checks
"#;

/// The comments of two interfaces of `id1` and one of `id2`.
const ID1: &str = "8e48f37d5de60467-d509459a5455817c, net: net1, if: eth0, id: id1";

fn keys() -> Value {
    json!({"isDefaultGateway": true, "ipMasq": true, "ipMasqBackend": "nftables"})
}

/// Returns what `nft` lists of the table after these commands.
fn golden(rules: &[&str]) -> String {
    let sandbox = Sandbox::new();
    let script = "/run/conformance/golden.nft";
    let rules: Vec<String> = rules.iter().map(|rule| format!("add rule {TABLE} masq_checks {rule}")).collect();
    std::fs::write(script, format!("{SKELETON}{}\n", rules.join("\n"))).expect("write a script for nft");
    sandbox.sh(&format!("nft -f {script}"));
    table(&sandbox)
}

fn table(sandbox: &Sandbox) -> String {
    sandbox.sh(&format!("nft --stateless list table {TABLE}"))
}

/// Subnets, and the rules of a container in them.
type Family<'r> = (&'static [&'static str], &'r [&'r str]);

#[test]
fn the_rules_are_the_references_for_the_families_in_use() {
    let v4 = format!("ip saddr == 10.1.2.2 ip daddr != 10.1.2.0/24 masquerade comment \"{ID1}\"");
    let v6 = format!("ip6 saddr == fd00:1::2 ip6 daddr != fd00:1::/64 masquerade comment \"{ID1}\"");
    let cases: [(&str, Family<'_>); 3] =
        [("IPv4", (&[V4], &[&v4])), ("IPv6", (&[V6], &[&v6])), ("both", (&[V4, V6], &[&v4, &v6]))];
    for_each(cases, |(subnets, rules)| {
        let (with_container, without) = (golden(rules), golden(&[]));
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", network(subnets, keys()));
        let result = port.add();
        assert_eq!(table(&sandbox), with_container);
        assert_eq!(all_rules(&sandbox), [[""; 0], [""; 0]], "iptables has nothing to do with it");
        port.check(&result);
        port.del();
        assert_eq!(table(&sandbox), without);
        port.del();
        assert_eq!(table(&sandbox), without);
    });
}

#[test]
fn containers_stand_in_their_order_and_del_takes_one_away() {
    let sandbox = Sandbox::new();
    let ports = ["id1", "id2", "id3"].map(|id| Port::new(&sandbox, id, network(&[V4], keys())));
    let results = ports.each_ref().map(Port::add);
    let rules = || -> Vec<String> {
        let listed = table(&sandbox);
        let rules = listed.lines().filter(|line| line.contains("masquerade comment"));
        rules.map(|line| line.trim().rsplit(' ').next().expect("a word").to_owned()).collect()
    };
    assert_eq!(rules(), ["id1\"", "id2\"", "id3\""]);
    ports[1].del();
    assert_eq!(rules(), ["id1\"", "id3\""]);
    ports[0].check(&results[0]);
    ports[1].add();
    assert_eq!(rules(), ["id1\"", "id3\"", "id2\""]);
    let skeleton = table(&sandbox).lines().filter(|line| line.contains("goto masq_checks")).count();
    assert_eq!(skeleton, 1, "the entry rules are there once");
}

/// An ADD whose DEL never came, as after a crash: the reference looks for the instance by its comment.
#[test]
fn rules_of_an_earlier_life_are_replaced() {
    let stale = format!("ip saddr 10.1.2.99 ip daddr != 10.1.2.0/24 masquerade comment \"{ID1}\"");
    let fresh = format!("ip saddr == 10.1.2.2 ip daddr != 10.1.2.0/24 masquerade comment \"{ID1}\"");
    let expected = golden(&[&fresh]);
    let sandbox = Sandbox::new();
    std::fs::write("/run/conformance/stale.nft", format!("{SKELETON}add rule {TABLE} masq_checks {stale}\n"))
        .expect("write");
    sandbox.sh("nft -f /run/conformance/stale.nft");
    Port::new(&sandbox, "id1", network(&[V4], keys())).add();
    assert_eq!(table(&sandbox), expected);
}

/// Whichever backend the configuration names by then.
#[test]
fn del_removes_the_rules_of_the_other_backend_too() {
    for (made_by, removed_by) in [("nftables", "iptables"), ("iptables", "nftables")] {
        let sandbox = Sandbox::new();
        let mut port =
            Port::new(&sandbox, "id1", network(&[V4, V6], with(&keys(), &json!({"ipMasqBackend": made_by}))));
        port.add();
        port.config["ipMasqBackend"] = json!(removed_by);
        port.del();
        assert_eq!(all_rules(&sandbox), [[""; 0], [""; 0]], "made by {made_by}");
        let ruleset = sandbox.sh("nft --stateless list ruleset");
        assert!(!ruleset.contains("id1"), "made by {made_by}: {ruleset}");
    }
}

#[test]
fn without_a_live_namespace_the_rules_are_found_by_their_comment() {
    let sandbox = Sandbox::new();
    let expected = golden(&[]);
    for netns in ["", "/run/netns/never"] {
        let port = Port::new(&sandbox, "id1", network(&[V4, V6], keys()));
        port.add();
        port.container.remove();
        port.call(cni_conformance::Verb::Del).netns(netns).run().expect_success();
        assert_eq!(table(&sandbox), expected, "netns {netns:?}");
    }
}

#[test]
fn check_misses_a_rule_that_is_gone() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], keys()));
    let result = port.add();
    sandbox.sh(&format!("nft flush chain {TABLE} masq_checks"));
    port.call_check(&result).run().expect_error(100, "10.1.2.2");
    port.del();
}

#[test]
fn what_leaves_the_network_is_masqueraded() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let port = Port::new(&sandbox, "id1", network(&[V4, V6], keys()));
    port.add();
    let _servers = Echo::everywhere(&outside, 80);
    let pairs: [(IpAddr, IpAddr); 2] =
        [(Outside::V4.into(), Outside::HOST_V4.into()), (Outside::V6.into(), Outside::HOST_V6.into())];
    for (server, source) in pairs {
        let seen = ask(&port.container, Transport::Udp, (server, 80).into()).expect("an answer from outside");
        assert_eq!(seen.ip(), source);
    }
}
