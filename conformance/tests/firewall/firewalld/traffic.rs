//! Packets: firewalld refuses those of an address that is in no zone of its own, and lets one through that
//! is trusted.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_conformance::traffic::{Echo, Transport, ask, ask_within};
use cni_conformance::{Container, Invocation, Namespace, Outside, Verb};
use serde_json::{Value, json};

use crate::firewall::firewalld::{FirewalldHost, firewall};

const NEVER: Duration = Duration::from_millis(300);

/// Attaches a container to a bridge, with this list's first plugin alone.
fn attach(machine: &FirewalldHost, ranges: &Value) -> (Container, Value) {
    let container = machine.sandbox().container("ctr1");
    let config = json!({
        "cniVersion": "1.0.0", "name": "n1", "type": "bridge", "bridge": "br0", "isGateway": true,
        "ipam": {
            "type": "host-local", "dataDir": "/run/leases", "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
        },
    });
    let call = Invocation::new(machine.sandbox(), "bridge", Verb::Add).container_id("ctr1").netns(container.path());
    let result = call.config(&config).run().result();
    (container, result)
}

#[track_caller]
fn assert_open(from: &Namespace, to: IpAddr) {
    for transport in Transport::ALL {
        ask(from, transport, SocketAddr::new(to, 80)).unwrap_or_else(|error| panic!("{transport} to {to}: {error}"));
    }
}

#[track_caller]
fn assert_shut(from: &Namespace, to: IpAddr) {
    for transport in Transport::ALL {
        let answer = ask_within(from, transport, SocketAddr::new(to, 80), NEVER);
        assert!(answer.is_err(), "{transport} to {to} is answered");
    }
}

/// Pairs are an address of the outside and one of the host, both of the same family.
fn reaches_out_while_it_is_attached(ranges: &Value, pairs: &[[IpAddr; 2]]) {
    let machine = FirewalldHost::with_firewalld();
    let outside = machine.sandbox().outside();
    let (container, result) = attach(&machine, ranges);
    let _servers = [&*outside, machine.sandbox().host()].map(|place| Echo::everywhere(place, 80));
    for network in ["10.88.0.0/24", "fd00:88::/64"] {
        outside.route_to(network);
    }
    let all = |check: fn(&Namespace, IpAddr)| pairs.iter().flatten().for_each(|address| check(&container, *address));
    let client = firewall(&machine, "ctr1", &[], &json!({})).with("prevResult", result);
    all(assert_shut);
    client.add();
    all(assert_open);
    client.del();
    all(assert_shut);
}

fn v4_pair() -> [IpAddr; 2] {
    [IpAddr::V4(Outside::V4), "10.88.0.1".parse().expect("address")]
}

#[test]
fn an_ipv4_container_reaches_the_host_and_beyond() {
    reaches_out_while_it_is_attached(&json!([[{"subnet": "10.88.0.0/24"}]]), &[v4_pair()]);
}

#[test]
fn a_dual_stack_container_reaches_the_host_and_beyond() {
    let v6_pair = [IpAddr::V6(Outside::V6), "fd00:88::1".parse().expect("address")];
    let ranges = json!([[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]]);
    reaches_out_while_it_is_attached(&ranges, &[v4_pair(), v6_pair]);
}
