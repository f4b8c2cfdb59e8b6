//! The plugins under test and those of the reference, side by side and one after the other.
//!
//! The same configurations must make the same kernel state, files and results; one must be able to take
//! over from the other while containers run. The differences on purpose are in one table with their reasons
//! ([`cni_conformance::compare::accepted`]), and a row that no case shows must go.
//!
//! The reference is the folder `CNI_REFERENCE_DIR`, or else that of Debian's `containernetworking-plugins`.

mod drawn;
mod owners;

use cni_conformance::compare::accepted;
use cni_conformance::compare::row::ComparisonRow;
use cni_conformance::compare::walk::compare;
use cni_conformance::keys::with;
use cni_conformance::table::work_out;
use cni_conformance::{Flavour, PortMapping, reference};
use serde_json::{Value, json};

const V4: &str = "10.1.2.0/24";
const BOTH: &[&str] = &[V4, "fd00:1::/64"];

/// A plugin with host-local, and a default route for each subnet.
fn addressed(plugin: Value, subnets: &[&str]) -> Value {
    let ranges: Value = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    let default = |subnet: &&str| json!({"dst": if subnet.contains(':') { "::/0" } else { "0.0.0.0/0" }});
    let routes: Value = subnets.iter().map(default).collect();
    with(&plugin, &json!({"ipam": {"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": "/run/cni"}}))
}

fn bridge(subnets: &[&str], keys: Value) -> Value {
    addressed(with(&json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true}), &keys), subnets)
}

/// Lists as runtimes write them, and what they do not have.
fn rows() -> Vec<ComparisonRow> {
    let row = |name, version, plugins| {
        let row = ComparisonRow::new(name, version, plugins);
        ComparisonRow { ports: [PortMapping::twins(8080, 80), PortMapping::twins(9090, 90)], is_exchanged: true, ..row }
    };
    let portmap = |keys| with(&json!({"type": "portmap", "capabilities": {"portMappings": true}}), &keys);
    let nomad = |subnets: &[&str]| {
        let firewall = json!({"type": "firewall", "backend": "iptables", "iptablesAdminChainName": "NOMAD-ADMIN"});
        json!([{"type": "loopback"}, bridge(subnets, json!({"forceAddress": true})), firewall, portmap(json!({"snat": true}))])
    };
    let podman = || json!([bridge(&[V4], json!({"hairpinMode": true})), portmap(json!({})), {"type": "firewall"}, {"type": "tuning"}]);
    let conditions = json!({
        "markMasqBit": 5, "conditionsV4": ["!", "-d", "192.0.2.0/24"], "conditionsV6": ["!", "-d", "2001:db8::/32"],
    });
    let policy = json!({"type": "firewall", "backend": "iptables", "ingressPolicy": "same-bridge"});
    let properties = json!({"type": "tuning", "mac": "02:00:00:00:00:0b", "mtu": 1400, "promisc": true, "allmulti": true,
        "sysctl": {"net.ipv4.conf.eth0.rp_filter": "1"}});
    let limits = json!({"type": "bandwidth", "ingressRate": 8_000_000, "ingressBurst": 1_600_000,
        "egressRate": 16_000_000, "egressBurst": 1_600_000});
    let macvlan = json!({"type": "macvlan", "master": "wire0", "mode": "private", "mtu": 1400});
    let dns = json!({"nameservers": ["192.0.2.53"], "domain": "example.org", "search": ["a"], "options": ["b"]});
    let mut rows = vec![
        ComparisonRow {
            before: vec!["ip link add br0 address 02:00:00:00:00:aa type bridge", "ip link set br0 mtu 1450"],
            ..row(
                "layer 2 on a bridge that is there",
                "0.3.1",
                json!([{"type": "bridge", "bridge": "br0", "mtu": 1400}]),
            )
        },
        ComparisonRow { flavour: Flavour::Legacy, ..row("Nomad's list, legacy iptables", "0.4.0", nomad(&[V4])) },
        row("Nomad's list for both families", "1.0.0", nomad(BOTH)),
        row("podman's list", "0.4.0", podman()),
        ComparisonRow {
            args: "IgnoreUnknown=1;K8S_POD_NAME=web;MAC=92:d0:c6:0a:29:33",
            ..row("nerdctl's list with a MAC address", "1.0.0", podman())
        },
        // v1.1.1 comments rules for all policies otherwise, so CHECK does not find its rules.
        ComparisonRow {
            is_exchanged: false,
            ..row(
                "bridges kept apart, conditions",
                "0.4.0",
                json!([bridge(BOTH, json!({})), policy, portmap(conditions)]),
            )
        },
        row(
            "routed pairs",
            "0.3.1",
            json!([addressed(json!({"type": "ptp", "ipMasq": true}), BOTH), portmap(json!({}))]),
        ),
        row("properties", "1.0.0", json!([bridge(BOTH, json!({})), properties])),
        row("limits", "1.0.0", json!([bridge(&[V4], json!({})), limits])),
        ComparisonRow {
            before: vec!["ip link add wire0 type bridge", "ip link set wire0 up"],
            ..row("macvlan", "1.0.0", json!([addressed(macvlan, BOTH)]))
        },
    ];
    let of_version = |version| row("a version", version, json!([bridge(BOTH, json!({"dns": dns}))]));
    rows.extend(["0.1.0", "0.2.0"].map(of_version));
    rows
}

#[test]
fn the_same_configurations_make_the_same_state_and_results() {
    let Some(reference) = reference::find("state and results of the table's configurations") else { return };
    let cells =
        rows().into_iter().map(|row| ([row.name.to_owned(), row.list["cniVersion"].to_string()], row)).collect();
    work_out(["network", "version"], cells, |row| {
        compare(&row, &reference);
        String::new()
    });
    let unused = accepted::unused(reference.level);
    assert!(unused.is_empty(), "accepted differences that no case shows:\n{}", unused.join("\n"));
}
