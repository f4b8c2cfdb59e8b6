//! Which tables there are, and what they get.

use cni_conformance::Verb::{Add, Check, Del};
use serde_json::{Value, json};

use crate::sbr::setup::Routed;

fn with_ips(routed: &Routed, ips: Value, routes: Value) -> Value {
    let interface = |name: &str| json!({"name": name, "sandbox": routed.container.path()});
    json!({"prevResult": {
        "cniVersion": "1.0.0", "interfaces": [interface("eth0"), interface("net1")], "ips": ips, "routes": routes,
    }})
}

#[test]
fn each_address_has_a_rule_and_a_table_with_the_routes_of_its_network() {
    let routed = Routed::new();
    routed.succeeds(&[Add, Check], &json!({}));
    assert_eq!(routed.rules(), ["from 10.91.0.2 lookup 100", "from fd00:91::2 lookup 101"]);
    let want = [
        "default via 10.91.0.1",
        "default via 10.91.0.1 metric 50",
        "10.91.0.0/24 proto kernel scope link src 10.91.0.2",
        "10.93.0.0/16 via 10.91.0.9 metric 7 mtu 1400",
    ];
    assert_eq!(routed.routes("-4", "100"), want);
    let want = [
        "fd00:91::/64 proto kernel metric 256 pref medium",
        "fd00:93::/64 via fd00:91::9 metric 1024 pref medium",
        "default via fd00:91::1 metric 1024 pref medium",
    ];
    assert_eq!(routed.routes("-6", "101"), want);
    assert_eq!(routed.routes("-4", "main"), [""; 0]);
}

/// The reference takes the main table's link-local network away, and a route by a router that is in no network.
#[test]
fn what_no_table_gets_stays_where_it_is() {
    let routed = Routed::new();
    routed.container.sh("ip route add 198.51.100.0/24 via 172.16.0.1 dev net1 onlink");
    routed.succeeds(&[Add, Check], &json!({}));
    assert_eq!(routed.routes("-4", "main"), ["198.51.100.0/24 via 172.16.0.1 onlink"]);
    let local = routed.routes("-6", "main");
    assert!(local.iter().any(|route| route.starts_with("fe80::/64")), "{local:?}");
    let only = with_ips(&routed, json!([{"address": "10.91.0.2/24", "interface": 1}]), json!([]));
    let routed = Routed::new();
    routed.succeeds(&[Add], &only);
    let kept = routed.routes("-6", "main").join("\n");
    assert!(kept.contains("fd00:91::/64") && kept.contains("fd00:93::/64"), "{kept}");
}

#[test]
fn a_table_in_use_is_passed_over() {
    let routed = Routed::new();
    routed.container.sh("ip route add 10.7.0.0/16 dev eth0 table 100");
    routed.container.sh("ip route add unreachable 10.8.0.0/16 table 101");
    routed.container.sh("ip rule add from 10.9.0.1 lookup 102");
    routed.succeeds(&[Add, Check], &json!({}));
    let rules = routed.rules();
    assert!(rules.contains(&"from 10.91.0.2 lookup 103".to_owned()), "{rules:?}");
    routed.succeeds(&[Del], &json!({}));
    assert_eq!(routed.rules(), ["from 10.9.0.1 lookup 102"]);
}

#[test]
fn the_gateway_may_stand_in_the_routes() {
    let routed = Routed::new();
    let ips = json!([{"address": "10.91.0.2/24", "interface": 1}]);
    let keys = with_ips(&routed, ips, json!([{"dst": "0.0.0.0/0", "gw": "10.91.0.1"}]));
    routed.succeeds(&[Add, Check], &keys);
    assert!(routed.routes("-4", "100").contains(&"default via 10.91.0.1".to_owned()));
}

#[test]
fn one_of_several_next_hops_is_copied_and_stays() {
    let routed = Routed::new();
    let line = "ip route add 203.0.113.0/24 nexthop via 10.90.0.1 dev eth0 nexthop via 10.91.0.1 dev net1";
    routed.container.sh(line);
    let before = routed.state();
    routed.succeeds(&[Add], &json!({}));
    assert!(routed.routes("-4", "100").contains(&"203.0.113.0/24 via 10.91.0.1".to_owned()));
    let main = routed.container.sh("ip route show table main");
    assert!(main.contains("203.0.113.0/24"), "{main}");
    routed.succeeds(&[Del], &json!({}));
    assert_eq!(routed.state(), before);
}

#[test]
fn a_table_that_is_named_gets_the_rules_and_no_routes() {
    let routed = Routed::new();
    let before = routed.state();
    let keys = json!({"table": 5000});
    routed.succeeds(&[Add, Check], &keys);
    assert_eq!(routed.rules(), ["from 10.91.0.2 lookup 5000", "from fd00:91::2 lookup 5000"]);
    let without_rules: Vec<String> = routed.state().into_iter().filter(|line| !line.starts_with("from ")).collect();
    assert_eq!(without_rules, before);
    routed.succeeds(&[Del], &keys);
    assert_eq!(routed.state(), before);
}

#[test]
fn every_version_is_served() {
    for version in ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let routed = Routed::new();
        let ip = json!({"version": "4", "address": "10.91.0.2/24", "gateway": "10.91.0.1"});
        let result = match version {
            "0.1.0" | "0.2.0" => json!({"cniVersion": version, "ip4": {"ip": "10.91.0.2/24", "gateway": "10.91.0.1"}}),
            _ => json!({"cniVersion": version, "ips": [ip]}),
        };
        let keys = json!({"cniVersion": version, "prevResult": result});
        assert_eq!(routed.run(Add, &keys).result()["cniVersion"], json!(version));
        assert_eq!(routed.rules(), ["from 10.91.0.2 lookup 100"]);
        routed.succeeds(&[Del], &keys);
        assert_eq!(routed.rules(), [""; 0]);
    }
}

#[test]
fn source_hints_keep_the_networks_in_the_main_table_and_gateways_replace_those_of_the_result() {
    let routed = Routed::new();
    let before = routed.state();
    let keys = json!({"gateways": ["fd00:91::9", "10.91.0.9"], "addSourceHints": true});
    for _ in 0..2 {
        routed.succeeds(&[Add, Check], &keys);
        assert_eq!(routed.routes("-4", "main"), ["10.91.0.0/24 proto kernel scope link src 10.91.0.2"]);
        let main = routed.routes("-6", "main");
        assert_eq!(main[0], "fd00:91::/64 src fd00:91::2 metric 256 pref medium", "{main:?}");
        assert!(main[1].starts_with("fe80::/64"), "{main:?}");
        assert_eq!(routed.routes("-4", "100")[0], "default via 10.91.0.9");
        let defaults = routed.routes("-6", "101").into_iter().filter(|route| route.starts_with("default"));
        assert_eq!(defaults.collect::<Vec<_>>(), ["default via fd00:91::9 metric 1024 pref medium"]);
    }
    routed.container.sh("ip -6 route del fd00:91::/64 table main");
    routed.run(Check, &keys).expect_error(100, "Failed to find the route to fd00:91::/64 with a source address");
    routed.succeeds(&[Add, Del], &keys);
    assert_eq!(routed.state(), before);
}
