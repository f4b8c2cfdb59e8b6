//! Which machines reach each other, with which source address.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_conformance::cases::{for_each, within_three_attempts};
use cni_conformance::traffic::{Echo, Transport, ask, ping, ping_until_answered};
use cni_conformance::{Attachment, Container, ListHost, Namespace, Outside};
use serde_json::json;

use crate::ptp::setup::{V4, V6, addresses, network};

/// Much less than the two seconds in which the kernel looks for others with the same address.
const AT_ONCE: Duration = Duration::from_millis(500);

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Requires an answer at once.
fn answers(from: &Namespace, to: IpAddr) -> Result<(), String> {
    if ping(from, to, AT_ONCE) { Ok(()) } else { Err(format!("{to} from {}", from.name())) }
}

#[test]
fn both_families_are_reached_as_soon_as_add_has_ended() {
    within_three_attempts(|| {
        let host = ListHost::new(network(&[V4, V6], &json!({})));
        let (container, _) = host.add("id1");
        addresses(&container).into_iter().try_for_each(|own| answers(host.sandbox.host(), own))?;
        ["10.1.2.1", "fd00:1::1"].into_iter().try_for_each(|gateway| answers(&container, address(gateway)))
    });
}

#[test]
fn containers_of_one_network_reach_each_other_by_the_host() {
    let host = ListHost::new(network(&[V4, V6], &json!({"ipMasq": true})));
    let [(one, _), (other, _)] = ["id1", "id2"].map(|name| host.add(name));
    for (from, to) in [(&one, &other), (&other, &one)] {
        let _servers = Echo::everywhere(to, 80);
        for (server, own) in addresses(to).into_iter().zip(addresses(from)) {
            let seen =
                ask(from, Transport::Tcp, (server, 80).into()).unwrap_or_else(|error| panic!("{server}: {error}"));
            assert_eq!(seen.ip(), own, "the masquerade spares the network");
        }
    }
}

/// As which addresses a container is seen outside.
fn seen_outside(container: &Container, outside: &Outside) -> [IpAddr; 2] {
    let _servers = Echo::everywhere(outside, 80);
    [Outside::V4.into(), Outside::V6.into()].map(|server: IpAddr| {
        let seen = ask(container, Transport::Tcp, (server, 80).into());
        seen.unwrap_or_else(|error| panic!("ask {server}: {error}")).ip()
    })
}

#[test]
fn what_leaves_the_network_has_the_hosts_address_with_either_backend() {
    let hosts: [IpAddr; 2] = [Outside::HOST_V4.into(), Outside::HOST_V6.into()];
    let own = [address("10.1.2.2"), address("fd00:1::2")];
    let cases = [
        ("no masquerade", (json!({}), own)),
        ("the host's own backend", (json!({"ipMasq": true}), hosts)),
        ("iptables", (json!({"ipMasq": true, "ipMasqBackend": "iptables"}), hosts)),
        ("nftables", (json!({"ipMasq": true, "ipMasqBackend": "nftables"}), hosts)),
    ];
    for_each(cases, |(keys, want)| {
        let host = ListHost::new(network(&[V4, V6], &keys));
        let outside = host.sandbox.outside();
        [V4, V6].iter().for_each(|subnet| outside.route_to(subnet));
        let (container, attachment) = host.add("id1");
        assert_eq!(seen_outside(&container, &outside), want);
        host.check(&attachment);
        host.del(&attachment);
        for program in ["iptables-save", "ip6tables-save", "nft list ruleset"] {
            let rules = host.sandbox.sh(program);
            assert!(!rules.contains("10.1.2.2") && !rules.contains("fd00:1::2"), "{rules}");
        }
    });
}

/// Also the first IPv6 packet, for which the host has to find the container by its link-local address.
#[test]
fn a_container_is_reached_from_outside_at_once() {
    within_three_attempts(|| {
        let host = ListHost::new(network(&[V4, V6], &json!({})));
        let outside = host.sandbox.outside();
        [V4, V6].iter().for_each(|subnet| outside.route_to(subnet));
        for own in [Outside::HOST_V4.into(), Outside::HOST_V6.into()] {
            ping_until_answered(&outside, own, Duration::from_secs(20));
        }
        let (container, _) = host.add("id1");
        addresses(&container).into_iter().try_for_each(|own| answers(&outside, own))
    });
}

#[test]
fn a_published_port_leads_to_the_container() {
    let mut host = ListHost::new(network(&[V4, V6], &json!({"ipMasq": true})));
    let plugins = host.list["plugins"].as_array_mut().expect("plugins");
    plugins.push(json!({"type": "firewall", "backend": "iptables"}));
    plugins.push(json!({"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}));
    let outside = host.sandbox.outside();
    let container = host.sandbox.container("id1");
    let ports = cni_conformance::PortMapping::twins(8080, 80);
    let mut attachment = Attachment::new("id1", &container).ports(&ports, cni_conformance::Spelling::Spec);
    host.runtime().add(&mut attachment).expect_success();
    host.check(&attachment);
    let _servers = Echo::everywhere(&container, 80);
    for at in [Outside::HOST_V4.into(), Outside::HOST_V6.into()] {
        let at = SocketAddr::new(at, 8080);
        ask(&outside, Transport::Tcp, at).unwrap_or_else(|error| panic!("from outside to {at}: {error}"));
    }
    host.del(&attachment);
}
