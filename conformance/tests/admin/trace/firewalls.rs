//! Firewalls of others: Docker's policy, a table as ufw makes it, and firewalld.

use cni_conformance::firewalld::FirewalldHost;
use cni_conformance::{CniTool, Invocation, Sandbox, Verb};
use serde_json::json;

use super::{ADDRESS, Extra, LOST, OUTSIDE, add, last_line, name_of, probe, serve};

#[test]
fn the_policy_that_docker_sets_is_named() {
    let sandbox = Sandbox::new();
    let web = add(&sandbox, "web", Extra::Nothing);
    let _server = serve(&web, "0.0.0.0:80");
    for line in ["-N DOCKER-USER", "-A DOCKER-USER -j RETURN", "-A FORWARD -j DOCKER-USER", "-P FORWARD DROP"] {
        sandbox.sh(&format!("iptables {line}"));
    }
    let says = "dropped by the policy of table ip filter, chain FORWARD, which Docker sets: add the plugin firewall to the list, \
                which accepts the packets of its containers, or iptables -I DOCKER-USER -d 10.22.0.2 -j ACCEPT";
    let done = probe(&sandbox, &["8080"], LOST, says);
    assert!(done.stdout().contains("  policy       table ip filter, chain FORWARD: policy drop   [Docker]"), "{done}");
    sandbox.sh(&format!("iptables -I DOCKER-USER -d {ADDRESS} -j ACCEPT"));
    sandbox.sh(&format!("iptables -I DOCKER-USER -s {ADDRESS} -j ACCEPT"));
    probe(&sandbox, &["8080"], 0, "arrived: ");
}

#[test]
fn a_rule_of_ufw_is_named() {
    let sandbox = Sandbox::new();
    let web = add(&sandbox, "web", Extra::Nothing);
    let _server = serve(&web, "0.0.0.0:80");
    for line in [
        "-N ufw-user-forward",
        "-N ufw-reject-forward",
        "-A FORWARD -j ufw-user-forward",
        "-A FORWARD -j ufw-reject-forward",
        "-A ufw-reject-forward -j REJECT --reject-with icmp-port-unreachable",
    ] {
        sandbox.sh(&format!("iptables {line}"));
    }
    let done = probe(&sandbox, &["8080"], LOST, "rejected by the rule \"");
    let last = last_line(&done);
    let says = "of table ip filter, chain ufw-reject-forward, which ufw sets: add the plugin firewall to the list, which accepts \
                the packets of its containers, or ufw route allow to 10.22.0.2";
    assert!(last.ends_with(says), "{last}");
}

/// The mark of a packet that the host has routed holds in the other families too.
#[test]
fn a_rule_of_the_families_bridge_and_netdev_is_named() {
    for (family, hook) in [("bridge", "hook output"), ("netdev", "hook egress device cni0")] {
        let sandbox = Sandbox::new();
        let web = add(&sandbox, "web", Extra::Firewall);
        let _server = serve(&web, "0.0.0.0:80");
        sandbox.sh(&format!("nft add table {family} guard"));
        sandbox.sh(&format!("nft add chain {family} guard out {{ type filter {hook} priority 0 ; }}"));
        sandbox.sh(&format!("nft add rule {family} guard out ip daddr {ADDRESS} drop"));
        let says = format!("dropped by the rule \"ip daddr {ADDRESS} drop\" of table {family} guard, chain out: ");
        probe(&sandbox, &["8080"], LOST, &says);
    }
}

/// The firewall of these plugins comes before such a rule, and is missing.
#[test]
fn a_rule_that_hits_since_those_of_the_firewall_are_missing_is_reported() {
    let sandbox = Sandbox::new();
    let _web = add(&sandbox, "web", Extra::Firewall);
    let name = name_of(ADDRESS);
    sandbox.sh("iptables -F FORWARD");
    sandbox.sh("iptables -P FORWARD DROP");
    let says = format!(
        "dropped by the policy of table ip filter, chain FORWARD: rules of container {name} are missing; cni-plugins repair restores them"
    );
    probe(&sandbox, &["8080"], LOST, &says);
}

#[test]
fn a_firewalld_zone_that_lacks_the_container_is_named() {
    let machine = FirewalldHost::with_firewalld();
    let sandbox = machine.sandbox();
    let _outside = sandbox.outside();
    let (key, bus) = machine.bus_variable();
    let mut list = super::list(Extra::Nothing);
    let plugins = list["plugins"].as_array_mut().expect("plugins");
    plugins.push(json!({"type": "firewall", "backend": "firewalld"}));
    let container = sandbox.container("web");
    CniTool::new(sandbox, &list).env(key, bus).add(&container).expect_success();
    let name = name_of(ADDRESS);
    machine.zone("removeSource", &["trusted", &format!("{ADDRESS}/32")]);
    let call = Invocation::new(sandbox, "cni-plugins", Verb::Add).without_env("CNI_COMMAND").env(key, bus);
    let done = call.arguments(&["trace", &name, "to", OUTSIDE, "--probe"]).run();
    assert_eq!(done.code(), Some(LOST), "{done}");
    let last = last_line(&done);
    assert!(last.starts_with("rejected by the rule \"reject with icmpx "), "{last}");
    assert!(last.contains(" of table inet firewalld, chain filter_F"), "{last}");
    let says = format!("which firewalld sets: rules of container {name} are missing; cni-plugins repair restores them");
    assert!(last.ends_with(&says), "{last}");
}
