//! The rows of the table that compares with the reference (`tests/differential`) whose links this machine's kernel may lack.

use cni_conformance::Feature;
use cni_conformance::cases::for_each;
use cni_conformance::compare::row::{ComparisonRow, MOVED};
use cni_conformance::compare::walk::compare;
use cni_conformance::keys::with;
use cni_conformance::reference::{self, Level, say};
use cni_conformance::uml::on_a_kernel_with;
use serde_json::{Value, json};

const V4: &str = "10.1.2.0/24";
const V6: &str = "fd00:1::/64";

/// A link on an interface of the host, which is a bridge here.
const MASTER: [&str; 2] = ["ip link add wire0 type bridge", "ip link set wire0 up"];

fn ipam(subnets: &[&str], routes: Value) -> Value {
    let ranges: Value = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    json!({"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": "/run/cni"})
}

fn on_master(name: &'static str, plugin: &str, subnets: &[&str], keys: &Value) -> ComparisonRow {
    let default = |subnet: &&str| json!({"dst": if subnet.contains(':') { "::/0" } else { "0.0.0.0/0" }});
    let routes: Value = subnets.iter().map(default).collect();
    let list = json!([with(&json!({"type": plugin, "master": "wire0", "ipam": ipam(subnets, routes)}), keys)]);
    ComparisonRow::new(name, list).before(&MASTER)
}

/// Compares each row with the reference, if there is one.
fn compare_all(kind: Feature, cases: Vec<ComparisonRow>) {
    let Some(reference) = reference::find(&format!("the rows for {kind:?}")) else { return };
    let (known, beyond): (Vec<ComparisonRow>, Vec<ComparisonRow>) =
        cases.into_iter().partition(|case| case.needs <= reference.level);
    for case in beyond {
        say(&format!("NOT COMPARED: {}: the reference in {} does not know it", case.name, reference.folder.display()));
    }
    for_each(known.into_iter().map(|case| (case.name, case)), |case| compare(&case, &reference));
}

#[test]
fn vlan_makes_the_same_state_and_results() {
    on_a_kernel_with(Feature::VlanLinks, || {
        // A number is one container's.
        let case = |name, subnets: &[&str], keys| {
            on_master(name, "vlan", subnets, &with(&json!({"vlanId": 5}), &keys)).alone()
        };
        let dns = json!({"dns": {"nameservers": ["192.0.2.53"], "domain": "example.org"}});
        compare_all(
            Feature::VlanLinks,
            vec![
                case("vlan of IPv4", &[V4], json!({})),
                case("vlan of both, mtu", &[V4, V6], json!({"mtu": 1400})),
                case("vlan 4094, dns, result of 1.0.0", &[V4], with(&dns, &json!({"vlanId": 4094}))).version("1.0.0"),
                case("vlan, result of 0.2.0", &[V4], json!({})).version("0.2.0"),
            ],
        );
    });
}

#[test]
fn ipvlan_makes_the_same_state_and_results() {
    on_a_kernel_with(Feature::IpvlanLinks, || {
        let case = |name, subnets: &[&str], keys| on_master(name, "ipvlan", subnets, &keys);
        compare_all(
            Feature::IpvlanLinks,
            vec![
                case("ipvlan of IPv4", &[V4], json!({})),
                case("ipvlan of both, l3, mtu", &[V4, V6], json!({"mode": "l3", "mtu": 1400})),
                case("ipvlan, l3s, result of 1.0.0", &[V4], json!({"mode": "l3s"})).version("1.0.0"),
                case("ipvlan, result of 0.3.1", &[V4], json!({})).version("0.3.1"),
            ],
        );
    });
}

#[test]
fn vrf_makes_the_same_state_and_results() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let routed = |name, subnets: &[&str], routes, keys: Value| {
            let first = json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": ipam(subnets, routes)});
            ComparisonRow::new(name, json!([first, with(&json!({"type": "vrf", "vrfname": "red"}), &keys)]))
                .broken_check(MOVED)
        };
        let case = |name, subnets: &[&str], keys| routed(name, subnets, json!([]), keys);
        compare_all(
            Feature::VrfLinks,
            vec![
                case("vrf of IPv4", &[V4], json!({})),
                case("vrf of both, a table", &[V4, V6], json!({"table": 42})),
                routed("vrf, a route that moves along", &[V4], json!([{"dst": "10.9.0.0/16"}]), json!({}))
                    .needs(Level::New),
                case("vrf, result of 1.0.0", &[V4], json!({})).version("1.0.0"),
            ],
        );
    });
}
