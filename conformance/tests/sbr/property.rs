//! For any valid configuration and any routes, DEL restores rules, tables and files to their state before ADD.

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::drawn::holds;
use proptest::option;
use proptest::prelude::Strategy;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::sbr::setup::{Routed, ips};

/// How many configurations are drawn: the same ones in every run.
const CASES: u32 = 16;

/// What an administrator or another plugin may have made inside.
const LINES: [&str; 10] = [
    "ip address add 10.94.0.2/24 dev net1",
    "ip route add 10.95.0.0/16 dev net1",
    "ip route add 10.96.0.0/16 dev net1 src 10.91.0.2",
    "ip route add fd00:95::/64 dev net1",
    "ip route add 10.97.0.0/16 nexthop via 10.91.0.7 dev net1 nexthop via 10.90.0.7 dev eth0",
    "ip route add 10.98.0.0/16 via 10.91.0.8 table 100",
    "ip rule add from 10.91.0.2 lookup 50 priority 500",
    "ip rule add from 10.90.0.2 lookup 101 priority 501",
    "ip -6 route add default via fd00:91::1 dev net1",
    "ip route add 224.0.0.0/4 dev net1",
];

/// Keys of the configuration, and what was there before.
type Drawn = (Value, Vec<&'static str>);

fn drawn() -> impl Strategy<Value = Drawn> {
    let table = option::of(select(vec![7_u32, 100, 4_294_967_295]));
    let reported = subsequence(ips().as_array().expect("a list").clone(), 1..=2);
    let version = select(vec!["1.1.0", "1.0.0", "0.4.0"]);
    (table, reported, version, subsequence(LINES.to_vec(), 0..=LINES.len())).prop_map(
        |(table, reported, version, lines)| {
            let reported: Vec<Value> = reported.into_iter().map(|ip| of_version(ip, version)).collect();
            let mut keys = json!({"cniVersion": version, "ips": reported});
            if let Some(table) = table {
                keys["table"] = json!(table);
            }
            (keys, lines)
        },
    )
}

/// Older versions name the family.
fn of_version(mut ip: Value, version: &str) -> Value {
    if version < "1.0.0" {
        let is_ipv6 = ip["address"].as_str().expect("text").contains(':');
        ip["version"] = json!(if is_ipv6 { "6" } else { "4" });
    }
    ip
}

fn live((mut keys, lines): Drawn) {
    let routed = Routed::new();
    lines.iter().for_each(|line| drop(routed.container.sh(line)));
    let before = routed.state();
    let interface = |name: &str| json!({"name": name, "sandbox": routed.container.path()});
    let reported = keys.as_object_mut().expect("an object").remove("ips");
    keys["prevResult"] = json!({"cniVersion": keys["cniVersion"], "interfaces": [interface("eth0"), interface("net1")], "ips": reported});
    routed.succeeds(&[Add], &keys);
    if keys.get("table").is_none() {
        routed.succeeds(&[Check], &keys);
    }
    for _ in 0..2 {
        routed.succeeds(&[Del], &keys);
        assert_eq!(routed.state(), before);
    }
}

#[test]
fn del_leaves_rules_and_tables_as_they_were() {
    holds(22, CASES, &drawn(), live);
}
