//! For any valid configuration, DEL restores host and container: plugins whose links this machine's kernel may lack.

use cni_conformance::drawn::holds;
use cni_conformance::keys::with;
use cni_conformance::uml::{on_a_kernel_with, on_kernels_with};
use cni_conformance::{Attachment, Feature, ListHost};
use proptest::option;
use proptest::prelude::{Strategy, any};
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::on_a_master;

/// How many configurations of each plugin are drawn: the same ones in every run.
const CASES: u32 = 4;

const SUBNETS: [&[&str]; 3] = [&["10.1.2.0/24"], &["fd00:1::/64"], &["10.1.2.0/24", "fd00:1::/64"]];

/// host-local with some routes, and a version.
fn networks() -> impl Strategy<Value = (Value, &'static str)> {
    let routes = subsequence(vec!["0.0.0.0/0", "::/0", "192.168.7.0/24", "fd00:7::/48"], 0..=4);
    let version = select(vec!["1.1.0", "1.0.0", "0.4.0"]);
    (select(SUBNETS.to_vec()), routes, version).prop_map(|(subnets, routes, version)| {
        let has = |v6: bool| subnets.iter().any(|subnet| subnet.contains(':') == v6);
        let routes: Vec<&str> = routes.into_iter().filter(|dst| has(dst.contains(':'))).collect();
        (ipam(subnets, &routes), version)
    })
}

fn ipam(subnets: &[&str], routes: &[&str]) -> Value {
    let ranges: Value = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    let routes: Value = routes.iter().map(|dst| json!({"dst": dst})).collect();
    json!({"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": "/run/cni"})
}

fn list(version: &str, plugins: Value) -> Value {
    json!({"cniVersion": version, "name": "net1", "plugins": plugins})
}

/// Adds, checks and deletes a container beside one that stays, on a host with these links.
fn live(list: Value, ifname: &str, before: &[&str]) {
    let host = ListHost::new(list);
    before.iter().for_each(|line| drop(host.sandbox.sh(line)));
    let container = host.sandbox.container("id1");
    let empty = host.state_with(&[&container]);
    let mut attachment = Attachment::new("id1", &container).ifname(ifname);
    host.runtime().add(&mut attachment).expect_success();
    host.check(&attachment);
    for _ in 0..2 {
        host.del(&attachment);
        host.is_as_before(&empty, &[&container]);
    }
}

const MASTER: [&str; 2] = ["ip link add wire0 mtu 1500 type bridge", "ip link set wire0 up"];

#[test]
fn del_removes_exactly_what_add_made_on_a_master() {
    on_kernels_with(on_a_master::KINDS, |kind| {
        let plugin = on_a_master::plugin(kind);
        let own = match kind {
            Feature::VlanLinks => select(vec![json!({"vlanId": 0}), json!({"vlanId": 5}), json!({"vlanId": 4094})]),
            Feature::IpvlanLinks => select(vec![json!({"mode": "l2"}), json!({"mode": "l3"}), json!({"mode": "l3s"})]),
            Feature::BridgeVlans
            | Feature::DummyLinks
            | Feature::Hardware
            | Feature::MacvlanLinks
            | Feature::VrfLinks => select(vec![
                json!({"mode": "private"}),
                json!({"mode": "passthru"}),
                json!({"mac": "02:00:00:00:00:0a"}),
            ]),
        };
        let mtu = option::of(select(vec![0, 1280, 1500]));
        let drawn = (networks(), own, mtu, select(vec!["eth0", "fifteen-bytes-0"]));
        let drawn = drawn.prop_map(move |((ipam, version), own, mtu, ifname)| {
            let keys = json!({"type": plugin, "master": "wire0", "ipam": ipam, "mtu": mtu.unwrap_or(0)});
            (list(version, json!([with(&keys, &own)])), ifname)
        });
        holds(31, CASES, &drawn, |(list, ifname)| live(list, ifname, &MASTER));
    });
}

#[test]
fn del_removes_exactly_what_add_made_with_dummy() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let drawn = networks().prop_map(|(ipam, version)| list(version, json!([{"type": "dummy", "ipam": ipam}])));
        holds(32, CASES, &drawn, |list| live(list, "eth0", &[]));
    });
}

#[test]
fn del_removes_exactly_what_add_made_with_vrf() {
    on_a_kernel_with(Feature::VrfLinks, || {
        let table = option::of(select(vec![0_u32, 7, 1000]));
        let drawn = (networks(), select(vec!["red", "fifteen-bytes-0"]), table, any::<bool>());
        let drawn = drawn.prop_map(|((ipam, version), name, table, has_two)| {
            let first = json!({"type": "macvlan", "master": "wire0", "ipam": ipam});
            let vrf = with(&json!({"type": "vrf", "vrfname": name}), &json!({"table": table.unwrap_or(0)}));
            let again = has_two.then(|| vrf.clone());
            list(version, [first, vrf].into_iter().chain(again).collect())
        });
        holds(33, CASES, &drawn, |list| live(list, "eth0", &MASTER));
    });
}
