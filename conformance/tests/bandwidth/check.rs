//! CHECK: whether the limits are there, and the packets pass them.

use cni_conformance::Verb::{Add, Check};
use cni_conformance::cases::for_each;
use serde_json::{Value, json};

use crate::bandwidth::setup::{IFB, Limited, both};

#[test]
fn whatever_is_missing_is_named() {
    let rows = [
        ("tc qdisc del dev host0 root".to_owned(), "Failed to find qdisc: host0 sends without a limit"),
        (
            "tc qdisc replace dev host0 root handle 1: tbf rate 8mbit burst 20000 limit 10000".to_owned(),
            "Limit doesn't match",
        ),
        (
            "tc qdisc replace dev host0 root handle 1: tbf rate 4mbit burst 20000 limit 45000".to_owned(),
            "Rate doesn't match",
        ),
        (
            "tc qdisc replace dev host0 root handle 1: tbf rate 8mbit burst 30000 limit 45000".to_owned(),
            "Buffer doesn't match",
        ),
        (format!("tc qdisc del dev {IFB} root"), "Failed to find qdisc"),
        ("tc qdisc del dev host0 ingress".to_owned(), "what the container sends is not limited"),
        (format!("ip link set {IFB} down"), "is down"),
        (format!("ip link del {IFB}"), "get ifb device: Link not found"),
    ];
    for_each(rows.map(|row| (row.0.clone(), row)), |(change, text)| {
        let limited = Limited::new();
        limited.succeeds(&[Add, Check], &both());
        limited.sandbox.sh(&change);
        let before = limited.state();
        limited.run(Check, &both()).expect_error(100, text);
        assert_eq!(limited.state(), before);
    });
}

/// The reference looks for a veth all the same.
#[test]
fn without_limits_nothing_is_looked_at() {
    let limited = Limited::new();
    limited.container.sh("ip link add br0 type bridge");
    for prev_result in [json!({"cniVersion": "1.0.0"}), Value::Null] {
        limited.call(Check, &json!({"prevResult": prev_result})).ifname("br0").run().expect_success();
    }
}
