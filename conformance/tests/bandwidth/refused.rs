//! Refused calls: one clear error, and nothing changed.

use cni_conformance::Verb::{Add, Check, Del};
use serde_json::{Value, json};

use crate::bandwidth::setup::{IFB, Limited, both, sending};

#[test]
fn without_the_result_of_another_plugin_add_is_refused() {
    let limited = Limited::new();
    for keys in [json!({}), both()] {
        let mut keys = keys;
        keys["prevResult"] = Value::Null;
        limited.run(Add, &keys).expect_error(7, "must be called as chained plugin");
    }
}

#[test]
fn an_interface_that_is_no_veth_to_the_host_is_refused() {
    let limited = Limited::new();
    limited.container.sh("ip link add br0 type bridge");
    limited.container.sh("ip link add here type veth peer name there");
    let before = limited.state();
    for (ifname, text) in [
        ("eth9", r#"container interface eth9 has no veth peer: could not look up "eth9": Link not found"#),
        ("br0", r#"container interface br0 has no veth peer: interface "br0" was not a veth interface"#),
        ("here", "veth peer of container interface here is not in host ns"),
    ] {
        for verb in [Add, Check] {
            limited.call(verb, &both()).ifname(ifname).run().expect_error(2, text);
        }
        assert_eq!(limited.state(), before);
        for verb in [Add, Del] {
            limited.call(verb, &json!({})).ifname(ifname).run().expect_success();
        }
    }
}

/// As with the reference. The link may be anybody's, such as the end of a veth that an administrator has moved into the
/// container.
#[test]
fn a_link_that_is_in_no_earlier_result_is_refused() {
    let limited = Limited::new();
    let before = limited.state();
    let inside = limited.interface("eth0");
    for (interfaces, code, text) in [
        (json!([]), 7, "no interfaces provided"),
        (json!([inside]), 2, "no veth peer of container interface found in host ns"),
        (json!([inside, {"name": "host1"}]), 2, "no veth peer of container interface found in host ns"),
    ] {
        let mut keys = both();
        keys["prevResult"] = json!({"cniVersion": "1.0.0", "interfaces": interfaces});
        for verb in [Add, Check] {
            limited.run(verb, &keys).expect_error(code, text);
        }
        assert_eq!(limited.state(), before);
        limited.succeeds(&[Del], &keys);
    }
}

#[test]
fn numbers_that_are_no_limit_are_refused_by_add_and_check() {
    let limited = Limited::new();
    for (keys, text) in [
        (json!({"ingressRate": 8_000_000}), "if rate is set, burst must also be set"),
        (json!({"egressBurst": 8_000_000}), "if burst is set, rate must also be set"),
        (json!({"egressRate": 8_000_000, "egressBurst": 34_359_738_360_u64}), "burst cannot be more than 4GB"),
        (json!({"ingressRate": 7, "ingressBurst": 80_000}), "rate cannot be less than 8 bits per second"),
    ] {
        for verb in [Add, Check] {
            limited.run(verb, &keys).expect_error(7, text);
        }
    }
}

/// The last step fails, since somebody else has taken the place.
#[test]
fn a_failed_add_leaves_nothing() {
    let limited = Limited::new();
    limited.sandbox.sh("tc qdisc add dev host0 root handle 7: pfifo");
    let before = limited.state();
    let error = limited.run(Add, &both()).expect_error(103, "create qdisc: file exists");
    assert!(error.details.contains("host0 has a root qdisc of kind pfifo"), "{error:?}");
    assert_eq!(limited.state(), before);
    limited.sandbox.sh("tc qdisc del dev host0 root");
    // The kernel cannot take the ifb's own bucket, though it has the ifb: the name is somebody else's.
    limited.sandbox.sh(&format!("ip link add {IFB} type bridge"));
    let own = limited.run(Add, &sending()).result()["interfaces"][2]["name"].clone();
    assert_ne!(own, json!(IFB));
}
