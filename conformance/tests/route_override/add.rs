//! ADD: which routes each key changes, in the kernel and in the result.

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::cases::for_each;
use serde_json::{Value, json};

use crate::route_override::setup::{Routed, all_keys};

const DEFAULT: &str = "default via 10.91.0.1 dev eth0";
const ONE: &str = "10.93.0.0/16 via 10.91.0.9 dev eth0 metric 7 mtu 1400";
const DEFAULT6: &str = "default via fd00:91::1 dev eth0 metric 1024 pref medium";

#[test]
fn each_key_changes_its_routes() {
    let reported = |dst: &[&str]| dst.iter().map(|dst| (*dst).to_owned()).collect::<Vec<_>>();
    let rows: [(Value, &[&str], Vec<String>); 9] = [
        (json!({}), &[DEFAULT, ONE, DEFAULT6], reported(&["0.0.0.0/0", "10.93.0.0/16", "::/0"])),
        (json!({"flushroutes": true}), &[], reported(&[])),
        (json!({"flushgateway": true}), &[ONE], reported(&["10.93.0.0/16"])),
        (json!({"delroutes": [{"dst": "10.93.0.0/16"}]}), &[DEFAULT, DEFAULT6], reported(&["0.0.0.0/0", "::/0"])),
        (json!({"args": {"cni": {"flushgateway": true}}, "flushgateway": false}), &[ONE], reported(&["10.93.0.0/16"])),
        (
            json!({"flushgateway": true, "addroutes": [{"dst": "0.0.0.0/0", "priority": 500}]}),
            &["default via 10.91.0.1 dev eth0 metric 500", ONE],
            reported(&["10.93.0.0/16", "0.0.0.0/0"]),
        ),
        (
            json!({"flushroutes": true, "addroutes": [
                {"dst": "10.94.0.0/16", "table": 0}, {"dst": "10.95.0.0/16", "scope": 253},
            ]}),
            &["10.94.0.0/16 via 10.91.0.1 dev eth0"],
            reported(&["10.94.0.0/16", "10.95.0.0/16"]),
        ),
        // The route that has a router is not the one on the link.
        (
            json!({"delroutes": [{"dst": "10.93.0.0/16"}], "addroutes": [{"dst": "10.93.0.0/16", "scope": 253}]}),
            &[DEFAULT, DEFAULT6],
            reported(&["0.0.0.0/0", "::/0", "10.93.0.0/16"]),
        ),
        (
            all_keys(),
            &[
                "10.94.0.0/16 via 10.91.0.1 dev eth0",
                "fd00:94::/64 via fd00:91::9 dev eth0 metric 7 mtu 1400 pref medium",
            ],
            reported(&["10.94.0.0/16", "fd00:94::/64"]),
        ),
    ];
    for_each(rows.map(|row| (row.0.to_string(), row)), |(keys, routes, reported)| {
        let routed = Routed::new();
        let result = routed.call(Add, &keys).run().result();
        assert_eq!(routed.routes(), routes);
        assert_eq!(Routed::destinations(&result), reported);
    });
}

/// The next plugin of the list must not take the gateway for one that packets reach.
#[test]
fn a_flushed_gateway_leaves_the_result_too() {
    let result = Routed::new().call(Add, &json!({"flushgateway": true})).run().result();
    let ips = result["ips"].as_array().cloned().unwrap_or_default();
    assert!(ips.len() == 2 && ips.iter().all(|ip| ip.get("gateway").is_none()), "{result}");
}

#[test]
fn routes_of_other_interfaces_stay() {
    let routed = Routed::new();
    routed.container.sh("ip link set lo up");
    routed.container.sh("ip route add 10.95.0.0/16 dev lo");
    routed.succeeds(&[Add], &all_keys());
    let routes = routed.container.sh("ip route show");
    assert!(routes.contains("10.95.0.0/16 dev lo"), "{routes}");
}

#[test]
fn add_can_be_repeated() {
    let routed = Routed::new();
    routed.succeeds(&[Add], &all_keys());
    let once = routed.state();
    routed.succeeds(&[Add], &all_keys());
    assert_eq!(routed.state(), once);
}

#[test]
fn a_route_with_another_mtu_or_advmss_is_replaced_and_restored() {
    let rows = [
        (
            json!({"dst": "10.93.0.0/16", "gw": "10.91.0.9", "priority": 7, "mtu": 1300, "advmss": 1200}),
            [DEFAULT, "10.93.0.0/16 via 10.91.0.9 dev eth0 metric 7 mtu 1300 advmss 1200", DEFAULT6],
        ),
        (
            json!({"dst": "10.93.0.0/16", "gw": "10.91.0.9", "priority": 7, "advmss": 1200}),
            [DEFAULT, "10.93.0.0/16 via 10.91.0.9 dev eth0 metric 7 advmss 1200", DEFAULT6],
        ),
        (
            json!({"dst": "::/0", "mtu": 1400}),
            [DEFAULT, ONE, "default via fd00:91::1 dev eth0 metric 1024 mtu 1400 pref medium"],
        ),
    ];
    for_each(rows.map(|row| (row.0.to_string(), row)), |(route, routes)| {
        let routed = Routed::new();
        let before = routed.state();
        let keys = json!({"addroutes": [route]});
        routed.call(Check, &keys).run().expect_error(100, "is missing");
        routed.succeeds(&[Add, Add, Check], &keys);
        assert_eq!(routed.routes(), routes);
        routed.succeeds(&[Del], &keys);
        assert_eq!(routed.state(), before);
    });
}
