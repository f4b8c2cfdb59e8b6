//! Probes of IPv6: the same findings as for IPv4, by the parameters, tables and programs of IPv6.

use cni_conformance::{Container, Outside, Sandbox};

use super::{ADDRESS_V6, Extra, LOST, OUTSIDE_V6, add, name_of, probe, serve};

/// A container that has an address of IPv6 alone, and reaches the outside.
fn host() -> (Sandbox, Outside, Container, String) {
    let sandbox = Sandbox::new();
    let (outside, web) = (sandbox.outside(), add(&sandbox, "web", Extra::FirewallV6));
    (sandbox, outside, web, name_of(ADDRESS_V6))
}

#[test]
fn a_probe_that_a_container_answers_has_arrived() {
    let (sandbox, _outside, web, name) = host();
    let _server = serve(&web, "[::]:80");
    let done = probe(&sandbox, &["8080"], 0, &format!("arrived: container {name} has answered port 8080/tcp"));
    for text in [
        &format!("becomes [{ADDRESS_V6}]:80"),
        &format!("[plugin portmap, container {name}]"),
        &format!("  route        to {ADDRESS_V6} by cni0"),
        "table ip6 nat, chain CNI-HOSTPORT-DNAT: ",
        &format!("chain CNI-FORWARD: ip6 saddr {ADDRESS_V6} accept   [plugin firewall, container {name}]"),
    ] {
        assert!(done.stdout().contains(text), "{text:?}: {done}");
    }
}

#[test]
fn a_probe_from_a_container_shows_its_masquerade() {
    let (sandbox, outside, _web, name) = host();
    let _server = serve(&outside, "[::]:80");
    let words = ["cnitool-", "to", OUTSIDE_V6];
    let done = probe(&sandbox, &words, 0, &format!("arrived: {OUTSIDE_V6} has answered container {name}"));
    assert!(done.stdout().contains(&format!("  source       [{ADDRESS_V6}]:")), "{done}");
    assert!(done.stdout().contains(&format!("[plugin bridge or ptp (ipMasq), container {name}]")), "{done}");
    probe(&sandbox, &["cnitool-", "to", "2001:db8:2::2"], 0, "arrived: 2001:db8:2::2 has answered");
    sandbox.sh("ip6tables -t nat -F POSTROUTING");
    let says = format!(
        "it left the host by uplink0 with the container's own address {ADDRESS_V6}, to which no answer came: the masquerade is \
         missing: cni-plugins repair restores it"
    );
    probe(&sandbox, &words, LOST, &says);
}

#[test]
fn forwarding_that_is_off_is_named() {
    let (sandbox, _outside, web, _) = host();
    let _server = serve(&web, "[::]:80");
    sandbox.set_sysctl("net/ipv6/conf/all/forwarding", "0");
    let says = "dropped since net.ipv6.conf.all.forwarding is 0: the host forwards nothing: \
                sysctl -w net.ipv6.conf.all.forwarding=1";
    probe(&sandbox, &["8080"], LOST, says);
    probe(&sandbox, &["cnitool-", "to", OUTSIDE_V6], LOST, says);
}

#[test]
fn what_listens_in_the_container_is_told() {
    let (sandbox, _outside, web, name) = host();
    let came = format!("it came to container {name} at [{ADDRESS_V6}]:80, ");
    probe(&sandbox, &["8080"], LOST, &format!("{came}where no program listens: "));
    let _server = serve(&web, "[::1]:80");
    probe(&sandbox, &["8080"], LOST, &format!("{came}whose program listens only on its loopback address: "));
}

#[test]
fn routes_of_container_and_host_are_told() {
    let (sandbox, _outside, web, name) = host();
    let words = ["cnitool-", "to", OUTSIDE_V6];
    web.sh("ip -6 route replace default via fd00:22::99");
    let says = format!("the route of container {name} to {OUTSIDE_V6} is wrong: it leads to fd00:22::99, which is no ");
    probe(&sandbox, &words, LOST, &says);
    web.sh("ip -6 route del default");
    let says = format!("container {name} has no route to {OUTSIDE_V6}: write \"routes\": [{{\"dst\": \"::/0\"}}] ");
    probe(&sandbox, &words, LOST, &says);
    web.sh("ip -6 route add default via fd00:22::1");
    sandbox.sh("ip -6 route del default");
    let says = "dropped since the host has no route to 2001:db8:77::9: ";
    probe(&sandbox, &["cnitool-", "to", "[2001:db8:77::9]:80"], LOST, says);
}

#[test]
fn a_policy_and_a_rule_of_others_are_named() {
    let (sandbox, _outside, web, _) = host();
    let _server = serve(&web, "[::]:80");
    // Before the rules of the plugin.
    sandbox.sh("ip6tables -I FORWARD -j DROP");
    let says =
        "dropped by the rule \"drop\" of table ip6 filter, chain FORWARD: accept packets to fd00:22::2 in that chain";
    probe(&sandbox, &["8080"], LOST, says);
    sandbox.sh("ip6tables -F FORWARD");
    sandbox.sh("ip6tables -P FORWARD DROP");
    probe(&sandbox, &["8080"], LOST, "dropped by the policy of table ip6 filter, chain FORWARD: rules of container ");
}
