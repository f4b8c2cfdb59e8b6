//! The MAC address: from four places, in every spelling, in the result, and to the neighbours.

use std::net::IpAddr;
use std::time::Duration;

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::traffic::ping;
use serde_json::{Value, json};

use crate::tuning::setup::{FIRST_MAC, Tuned};

fn args(mac: &Value) -> Value {
    json!({"args": {"cni": {"mac": mac}}})
}

#[test]
fn the_last_of_four_places_counts() {
    let own = json!({"mac": "02:00:00:00:00:0a"});
    let mut runtime = own.clone();
    runtime["runtimeConfig"] = json!({"mac": "02:00:00:00:00:0c"});
    let mut all = runtime.clone();
    all["args"] = args(&json!("02:00:00:00:00:0d"))["args"].clone();
    let mut off = runtime.clone();
    off["args"] = args(&json!(""))["args"].clone();
    let mut null = runtime.clone();
    null["args"] = args(&json!(null))["args"].clone();
    let env = "IgnoreUnknown=1;K8S_POD_NAME=pod;MAC=02:00:00:00:00:0b";
    for (cni_args, keys, want) in [
        ("", &own, "02:00:00:00:00:0a"),
        ("MAC=", &own, "02:00:00:00:00:0a"),
        (env, &own, "02:00:00:00:00:0b"),
        (env, &runtime, "02:00:00:00:00:0c"),
        (env, &null, "02:00:00:00:00:0c"),
        (env, &all, "02:00:00:00:00:0d"),
        (env, &off, FIRST_MAC),
    ] {
        let tuned = Tuned::new();
        let result = tuned.call(Add, keys).args(cni_args).run().result();
        assert_eq!(tuned.properties().mac, want, "{cni_args} {keys}");
        assert_eq!(result["interfaces"][1]["mac"], json!(want), "{cni_args} {keys}");
        tuned.call(Check, keys).args(cni_args).run().expect_success();
        tuned.call(Del, keys).args(cni_args).run().expect_success();
        assert_eq!(tuned.properties().mac, FIRST_MAC);
    }
}

/// The reference compares texts, so that its CHECK takes only one spelling.
#[test]
fn every_spelling_is_taken_by_add_and_check() {
    for text in ["C2:11:22:33:44:55", "c2-11-22-33-44-55", "C211.2233.4455"] {
        let tuned = Tuned::new();
        let keys = json!({"mac": text});
        let result = tuned.run(Add, &keys).result();
        assert_eq!(result["interfaces"][1]["mac"], json!("c2:11:22:33:44:55"));
        tuned.succeeds(&[Check], &keys);
    }
}

/// An interface of the host that has the name is another one.
#[test]
fn only_the_containers_interface_has_the_address_in_the_result() {
    let tuned = Tuned::new();
    let sandbox = tuned.container.path();
    let interfaces =
        json!([{"name": "eth0"}, {"name": "eth0", "sandbox": sandbox}, {"name": "net1", "sandbox": sandbox}]);
    let result = json!({"cniVersion": "1.0.0", "interfaces": interfaces});
    let mut want = result.clone();
    want["interfaces"][1]["mac"] = json!("02:00:00:00:00:0a");
    let keys = json!({"prevResult": result, "mac": "02:00:00:00:00:0a"});
    assert_eq!(tuned.run(Add, &keys).result()["interfaces"], want["interfaces"]);
}

/// The reference sends nothing: a neighbour that knows the old address loses the container until it asks again.
#[test]
fn neighbours_that_know_the_old_address_reach_the_container_at_once() {
    let tuned = Tuned::new();
    for address in ["10.9.9.1/24", "fd00:9::1/64"] {
        tuned.sandbox.sh(&format!("ip address add {address} dev host0 nodad"));
    }
    for address in ["10.9.9.2/24", "fd00:9::2/64"] {
        tuned.container.sh(&format!("ip address add {address} dev eth0 nodad"));
    }
    let targets = ["10.9.9.2", "fd00:9::2"].map(|text| text.parse::<IpAddr>().expect("an address"));
    for target in targets {
        assert!(ping(tuned.sandbox.host(), target, Duration::from_secs(20)), "{target} before");
    }
    let switches = ["net/ipv4/conf/eth0/arp_notify", "net/ipv6/conf/eth0/ndisc_notify"];
    let before = switches.map(|path| tuned.parameter(path));
    tuned.succeeds(&[Add], &json!({"mac": "02:00:00:00:00:0a"}));
    for target in targets {
        let known = tuned.sandbox.sh(&format!("ip neighbour show {target} dev host0"));
        assert!(known.contains("02:00:00:00:00:0a"), "{known}");
        assert!(ping(tuned.sandbox.host(), target, Duration::from_secs(20)), "{target} after");
    }
    assert_eq!(switches.map(|path| tuned.parameter(path)), before);
}

#[test]
fn addresses_and_routes_stay_when_the_address_changes() {
    let tuned = Tuned::new();
    tuned.container.sh("ip address add 10.9.9.2/24 dev eth0");
    tuned.container.sh("ip route add default via 10.9.9.1");
    tuned.succeeds(&[Add], &json!({"mac": "02:00:00:00:00:0a"}));
    let routes = tuned.container.sh("ip route show");
    assert!(routes.contains("default via 10.9.9.1 dev eth0") && routes.contains("10.9.9.0/24"), "{routes}");
}
