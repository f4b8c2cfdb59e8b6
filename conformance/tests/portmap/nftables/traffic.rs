//! Which clients reach a published port, with which source address, and what does not change.
//!
//! The source addresses are those of the iptables back end, so the choice of a back end changes nothing. With the
//! reference's nftables a neighbour gets no answer unless bridged packets pass the rules.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_conformance::keys;
use cni_conformance::nomad::{GATEWAY_V4, GATEWAY_V6};
use cni_conformance::traffic::{Echo, Transport, ask, ask_within};
use cni_conformance::{
    Attachment, Container, Hairpin, Namespace, Nomad, Outside, PortMapping, Runtime, Sandbox, Spelling,
};
use serde_json::{Value, json};

use crate::portmap::nftables::ip;

const SERVICE: u16 = 80;
const PORT_A: u16 = 8080;
const PORT_B: u16 = 8081;

struct PortmapHost {
    _servers: Vec<Echo>,
    a: Container,
    b: Container,
    outside: Outside,
    sandbox: Sandbox,
}

/// Gateway, the host's own, the outside's, and that of `a`.
struct Addresses {
    gateway: IpAddr,
    host: IpAddr,
    outside: IpAddr,
    a: IpAddr,
}

fn families() -> [Addresses; 2] {
    [
        Addresses {
            gateway: ip(GATEWAY_V4),
            host: Outside::HOST_V4.into(),
            outside: Outside::V4.into(),
            a: ip("172.26.64.2"),
        },
        Addresses {
            gateway: ip(GATEWAY_V6),
            host: Outside::HOST_V6.into(),
            outside: Outside::V6.into(),
            a: ip("fd00:a110:c8::2"),
        },
    ]
}

/// Nomad's list, with other keys for portmap.
fn list(keys: &Value) -> Value {
    let mut list = Nomad::default().dual_stack().hairpin(Hairpin::On).conflist();
    let plugins = list["plugins"].as_array_mut().expect("plugins");
    let portmap = plugins.iter_mut().find(|plugin| plugin["type"] == "portmap").expect("portmap");
    portmap["backend"] = json!("nftables");
    keys::set(portmap, keys);
    list
}

impl PortmapHost {
    fn new(keys: &Value) -> Self {
        let sandbox = Sandbox::new();
        let outside = sandbox.outside();
        Nomad::default().dual_stack().ensure_forwarding_rules(&sandbox);
        let [a, b] = [("a", PORT_A), ("b", PORT_B)].map(|(name, port)| {
            let container = sandbox.container(name);
            let ports = PortMapping::twins(port, SERVICE);
            let mut attachment = Attachment::new(name, &container).ports(&ports, Spelling::Go);
            Runtime::new(&sandbox, list(keys)).add(&mut attachment).expect_success();
            container
        });
        let mut servers: Vec<Echo> =
            [&*a, &*b].into_iter().flat_map(|space| Echo::everywhere(space, SERVICE)).collect();
        servers.extend(Echo::everywhere(&outside, PORT_A));
        Self { _servers: servers, a, b, outside, sandbox }
    }
}

/// Requires that the server saw the client come from `source`, by TCP and by UDP.
#[track_caller]
fn reaches(from: &Namespace, to: IpAddr, port: u16, source: IpAddr) {
    for transport in Transport::ALL {
        let server = SocketAddr::new(to, port);
        let seen = ask(from, transport, server)
            .unwrap_or_else(|error| panic!("{} to {transport} {server}: {error}", from.name()));
        assert_eq!(seen.ip(), source, "source seen by {transport} {server}, asked from {}", from.name());
    }
}

#[test]
fn a_published_port_is_reached_from_everywhere() {
    let machine = PortmapHost::new(&json!({}));
    let loopback = ip("127.0.0.1");
    for filtering in [false, true] {
        machine.sandbox.set_bridge_filtering(filtering);
        for family in families() {
            let Addresses { gateway, host, outside, a } = family;
            reaches(&machine.outside, host, PORT_A, outside);
            reaches(machine.sandbox.host(), host, PORT_A, host);
            reaches(&machine.b, host, PORT_A, gateway);
            reaches(&machine.b, gateway, PORT_A, gateway);
            reaches(&machine.a, host, PORT_A, gateway);
            reaches(&machine.a, gateway, PORT_A, gateway);
            reaches(&machine.a, host, PORT_B, gateway);
            let without_the_port = if a.is_ipv4() { ip("172.26.64.3") } else { ip("fd00:a110:c8::3") };
            reaches(&machine.b, a, SERVICE, without_the_port);
        }
        reaches(machine.sandbox.host(), loopback, PORT_A, ip(GATEWAY_V4));
    }
}

/// CVE-2025-67499: only packets to the host's own addresses are captured.
#[test]
fn the_same_port_of_a_foreign_address_is_not_captured() {
    let machine = PortmapHost::new(&json!({}));
    for Addresses { host, outside, .. } in families() {
        reaches(&machine.a, outside, PORT_A, host);
        reaches(&machine.b, outside, PORT_A, host);
        reaches(machine.sandbox.host(), outside, PORT_A, host);
    }
}

#[test]
fn masq_all_hides_the_outside_from_the_container() {
    let machine = PortmapHost::new(&json!({"masqAll": true}));
    for Addresses { gateway, host, .. } in families() {
        reaches(&machine.outside, host, PORT_A, gateway);
    }
}

#[test]
fn conditions_limit_one_container_and_not_the_next() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    Nomad::default().ensure_forwarding_rules(&sandbox);
    let limited = json!({"conditionsV4": ["ip", "saddr", "!=", "192.0.2.0/24"]});
    let containers = [("a", PORT_A, limited), ("b", PORT_B, json!({}))].map(|(name, port, keys)| {
        let container = sandbox.container(name);
        let mut attachment = Attachment::new(name, &container).ports(&PortMapping::twins(port, SERVICE), Spelling::Go);
        Runtime::new(&sandbox, list(&keys)).add(&mut attachment).expect_success();
        container
    });
    let _servers: Vec<Echo> = containers.iter().flat_map(|space| Echo::everywhere(space, SERVICE)).collect();
    let host = IpAddr::from(Outside::HOST_V4);
    reaches(&outside, host, PORT_B, Outside::V4.into());
    for transport in Transport::ALL {
        let answer = ask_within(&outside, transport, SocketAddr::new(host, PORT_A), Duration::from_millis(400));
        assert!(answer.is_err(), "{transport} was answered: {answer:?}");
    }
    reaches(&containers[1], host, PORT_A, ip(GATEWAY_V4));
}
