//! The lists that people use for virtual machines: what the guest reaches, and what reaches it.

use std::net::IpAddr;
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::traffic::{Echo, Transport, ask, ping};
use cni_conformance::{Network, Nomad, Outside, PortMapping, Spelling, State};
use serde_json::{Value, json};

use crate::vm::machine::{ID, Machine, TAP, bridge, guest_config, ipams, list};

/// Whether a list publishes the guest's port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Published {
    Yes,
    No,
}

fn tap() -> Value {
    json!({"type": TAP})
}

fn firewall() -> Value {
    json!({"type": "firewall", "backend": "iptables"})
}

fn portmap() -> Value {
    json!({"type": "portmap", "capabilities": {"portMappings": true}, "snat": true})
}

/// Nomad's own list with the tap at its end.
fn nomads(ipam: &Value) -> Value {
    let mut list = Nomad::default().conflist();
    let plugins = list["plugins"].as_array_mut().expect("a configuration list has plugins");
    plugins[1]["ipam"] = ipam.clone();
    plugins.push(tap());
    list
}

fn lists(ipam: &Value) -> [(&'static str, Value, Published); 5] {
    let bridge = bridge(ipam);
    let mut default_gateway = bridge.clone();
    default_gateway["isDefaultGateway"] = json!(true);
    [
        ("bridge, tap", list("0.4.0", json!([default_gateway, tap()])), Published::No),
        ("bridge, firewall, tap", list("1.0.0", json!([bridge, firewall(), tap()])), Published::No),
        (
            "bridge, tap, firewall, portmap",
            list("1.0.0", json!([bridge, tap(), firewall(), portmap()])),
            Published::Yes,
        ),
        (
            "bridge, tap, firewall, portmap of 1.1.0",
            list("1.1.0", json!([bridge, tap(), firewall(), portmap()])),
            Published::Yes,
        ),
        ("Nomad's, tap", nomads(ipam), Published::Yes),
    ]
}

fn rows() -> impl Iterator<Item = (String, (Value, Published))> {
    ipams().into_iter().flat_map(|(name, ipam)| {
        lists(&ipam).map(|(list_name, list, published)| (format!("{name}: {list_name}"), (list, published)))
    })
}

#[test]
fn a_guest_lives_behind_every_list() {
    for_each(rows(), |(list, published)| {
        let machine = Machine::new();
        Nomad::default().ensure_forwarding_rules(&machine.sandbox);
        let outside = machine.sandbox.outside();
        // The firewall lets answers in, and new connections are for the administrator to allow.
        if published == Published::No && list["plugins"].to_string().contains("firewall") {
            machine.sandbox.sh("iptables -P FORWARD DROP");
        }
        let ports = [PortMapping::new(8080, 80, "tcp")];
        let mut attachment = machine.attachment().ports(&ports, Spelling::Go);
        let result = machine.add(&list, &mut attachment);
        let guest = guest_config(&result);

        assert!(ping(&machine.guest, guest.gateway, Duration::from_secs(20)), "{} answers the guest", guest.gateway);
        let _far = Echo::start(&outside, Transport::Tcp, (Outside::V4, 7).into());
        let seen = ask(&machine.guest, Transport::Tcp, (Outside::V4, 7).into()).expect("the guest reaches the outside");
        assert_eq!(seen.ip(), IpAddr::from(Outside::HOST_V4), "masqueraded");
        if published == Published::Yes {
            let _near = Echo::start(&machine.guest, Transport::Tcp, ([0, 0, 0, 0], 80).into());
            let seen =
                ask(&outside, Transport::Tcp, (Outside::HOST_V4, 8080).into()).expect("the port leads to the guest");
            assert_eq!(seen.ip(), IpAddr::from(Outside::V4));
        }

        machine.check(&list, &attachment);
        for _ in 0..2 {
            machine.del(&list, &attachment);
            assert_nothing_left(&machine, &guest.address);
        }
    });
}

/// Neither rules nor leases of the container, and no interface.
#[track_caller]
fn assert_nothing_left(machine: &Machine, address: &str) {
    let (address, _) = address.split_once('/').expect("an address with its prefix");
    let lines = State::of_host(&machine.sandbox).lines();
    let is_own = |line: &&String| line.contains(ID) || line.contains(&format!("{address}/32"));
    let left: Vec<&String> =
        lines.iter().filter(|line| !line.starts_with("files: /var/lib/cni/results")).filter(is_own).collect();
    assert!(left.is_empty(), "{left:#?}");
    let links = Network::observe(&machine.container).links;
    assert!(links.iter().all(|link| link.name == "lo"), "{links:?}");
}
