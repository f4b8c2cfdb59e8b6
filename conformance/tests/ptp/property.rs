//! For any valid configuration, DEL removes exactly what ADD made.

use cni_conformance::ListHost;
use cni_conformance::drawn::holds;
use proptest::option;
use proptest::prelude::Strategy;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::ptp::setup::{left_nothing_since, network, state};

/// How many configurations are drawn: the same ones in every run.
const CASES: u32 = 16;

const SUBNETS: [&[&str]; 6] = [
    &["10.1.2.0/24"],
    &["fd00:1::/64"],
    &["10.1.2.0/24", "fd00:1::/64"],
    &["10.1.2.0/24", "10.1.3.0/25"],
    &["fd00:2::/80", "10.1.3.0/29"],
    &["10.1.2.0/24", "10.1.3.0/25", "fd00:1::/64", "fd00:2::/80"],
];

fn lists() -> impl Strategy<Value = Value> {
    let backend = select(vec![json!("iptables"), json!("nftables"), json!(null)]);
    let keys = (
        option::of(select(vec![true, true, false])),
        option::of(backend),
        option::of(select(vec![0, 1280, 1400, 9000])),
    );
    let routes = subsequence(vec!["0.0.0.0/0", "::/0", "192.168.7.0/24", "fd00:7::/48"], 0..=4);
    let version = select(vec!["1.1.0", "1.0.0", "0.4.0"]);
    (version, select(SUBNETS.to_vec()), routes, keys).prop_map(
        |(version, subnets, routes, (masquerade, backend, mtu))| {
            let mut list = network(subnets, &json!({}));
            list["cniVersion"] = json!(version);
            let has = |v6: bool| subnets.iter().any(|subnet| subnet.contains(':') == v6);
            let routes = routes.into_iter().filter(|dst| has(dst.contains(':')));
            let plugin = &mut list["plugins"][0];
            plugin["ipam"]["routes"] = routes.map(|dst| json!({"dst": dst})).collect();
            for (key, value) in
                [("ipMasq", masquerade.map(Value::from)), ("ipMasqBackend", backend), ("mtu", mtu.map(Value::from))]
            {
                if let Some(value) = value {
                    plugin[key] = value;
                }
            }
            list
        },
    )
}

fn live(list: Value) {
    let host = ListHost::new(list);
    let (_first, kept) = host.add("first");
    let before = state(&host);
    let (_second, attachment) = host.add("second");
    [&kept, &attachment].iter().for_each(|attachment| host.check(attachment));
    for _ in 0..2 {
        host.del(&attachment);
        left_nothing_since(&before, &host);
    }
    host.check(&kept);
    host.del(&kept);
}

#[test]
fn del_removes_exactly_what_add_made() {
    holds(7, CASES, &lists(), live);
}
