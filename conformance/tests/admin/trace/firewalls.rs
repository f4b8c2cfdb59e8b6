//! Firewalls of others: Docker's policy, a chain as ufw makes it, and firewalld, with lists that have neither masquerade nor firewall.

use cni_conformance::firewalld::FirewalldHost;
use cni_conformance::{CniTool, Flavour, Invocation, Verb};
use serde_json::json;

use super::{LOST, TracedHost, V4, last_line, list};

#[test]
fn who_sets_what_drops_a_packet_is_named_with_the_command_that_helps() {
    let host = TracedHost::of(V4, Flavour::Nft, &json!({"ipMasq": false}), &[]);
    let _servers = [host.serve(&host.web, false), host.serve(&host.outside, false)];
    let says = "it left the host by uplink0 with the container's own address $own, to which no answer came: the list asks for no \
                masquerade: write \"ipMasq\": true, or give others a route to the container's network";
    host.probe("cnitool- to $out80", LOST, says);
    host.sh("iptables -N ufw-user-forward; iptables -N ufw-reject-forward; iptables -A FORWARD -j ufw-user-forward; \
             iptables -A FORWARD -j ufw-reject-forward; \
             iptables -A ufw-reject-forward -j REJECT --reject-with icmp-port-unreachable");
    let last = last_line(&host.probe("8080", LOST, "rejected by the rule \""));
    let says = "of table ip filter, chain ufw-reject-forward, which ufw sets: add the plugin firewall to the list, which accepts \
                the packets of its containers, or ufw route allow to 10.22.0.2";
    assert!(last.ends_with(says), "{last}");
    host.sh("iptables -F FORWARD; iptables -N DOCKER-USER; iptables -A DOCKER-USER -j RETURN; \
             iptables -A FORWARD -j DOCKER-USER; iptables -P FORWARD DROP");
    let says = "dropped by the policy of table ip filter, chain FORWARD, which Docker sets: add the plugin firewall to the list, \
                which accepts the packets of its containers, or iptables -I DOCKER-USER -d $own -j ACCEPT";
    let done = host.probe("8080", LOST, says);
    assert!(done.stdout().contains("  policy       table ip filter, chain FORWARD: policy drop   [Docker]"), "{done}");
    host.sh("iptables -I DOCKER-USER -d $own -j ACCEPT; iptables -I DOCKER-USER -s $own -j ACCEPT");
    host.probe("8080", 0, "arrived: ");
}

#[test]
fn a_firewalld_zone_that_lacks_the_container_is_named() {
    let machine = FirewalldHost::with_firewalld();
    let sandbox = machine.sandbox();
    let _outside = sandbox.outside();
    let (key, bus) = machine.bus_variable();
    let list = list(V4, &json!({}), &[json!({"type": "firewall", "backend": "firewalld"})]);
    CniTool::new(sandbox, &list).env(key, bus).add(&sandbox.container("web")).expect_success();
    machine.zone("removeSource", &["trusted", "10.22.0.2/32"]);
    let call = Invocation::new(sandbox, "cni-plugins", Verb::Add).without_env("CNI_COMMAND").env(key, bus);
    let done = call.arguments(&["trace", "cnitool-", "to", "192.0.2.2:80", "--probe"]).run();
    let last = last_line(&done);
    assert!(done.code() == Some(LOST) && last.starts_with("rejected by the rule \"reject with icmpx "), "{done}");
    assert!(last.contains(" of table inet firewalld, chain filter_F"), "{last}");
    assert!(last.contains(", which firewalld sets: rules of container cnitool-"), "{last}");
    assert!(last.ends_with(" are missing; cni-plugins repair restores them"), "{last}");
}
