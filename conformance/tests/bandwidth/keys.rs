//! Rates and bursts, by what the kernel holds of them.

use cni_conformance::Verb::{Add, Check, Del};
use serde_json::json;

use crate::bandwidth::setup::{IFB, Limited, both};

#[test]
fn both_directions_have_a_bucket_and_what_the_container_sends_goes_by_the_ifb() {
    let limited = Limited::new();
    let result = limited.run(Add, &both()).result();
    let tbf = "root refcnt 2 rate";
    assert_eq!(
        limited.bucket("host0").replace("refcnt 3", "refcnt 2"),
        format!("qdisc tbf 1: {tbf} 8Mbit burst 20000b lat 25ms")
    );
    assert_eq!(
        limited.bucket(IFB).replace("refcnt 3", "refcnt 2"),
        format!("qdisc tbf 1: {tbf} 16Mbit burst 20000b lat 25ms")
    );
    let filters = limited.traffic_control().join("\n");
    assert!(filters.contains("protocol all pref 1 u32"), "{filters}");
    assert!(filters.contains(&format!("mirred (Egress Redirect to device {IFB}) stolen")), "{filters}");
    let link = limited.sandbox.sh(&format!("ip -details link show dev {IFB}"));
    assert!(link.contains("mtu 1500") && link.contains("alias cni:n1:ctr1:eth0"), "{link}");
    let mac = link.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).expect("an address");
    assert_eq!(result["interfaces"][2], json!({"name": IFB, "mac": mac}));
    limited.succeeds(&[Check, Del], &both());
}

#[test]
fn one_direction_alone_needs_one_bucket() {
    let limited = Limited::new();
    let keys = json!({"ingressRate": 8_000_000, "ingressBurst": 160_000});
    let result = limited.run(Add, &keys).result();
    assert_eq!((limited.links("ifb").len(), result["interfaces"].as_array().map(Vec::len)), (0, Some(2)));
    limited.succeeds(&[Check, Del], &keys);
    let keys = json!({"egressRate": 8_000_000, "egressBurst": 160_000});
    limited.succeeds(&[Add, Check], &keys);
    assert!(!limited.bucket("host0").contains("tbf"));
    limited.succeeds(&[Del], &keys);
}

/// The reference drops every large packet then.
#[test]
fn a_burst_that_cannot_pass_a_frame_is_refused() {
    let limited = Limited::new();
    let before = limited.state();
    let least = json!({"ingressRate": 8_000_000, "ingressBurst": 12_112});
    for (keys, text) in [
        (
            json!({"ingressRate": 8_000_000, "ingressBurst": 12_111}),
            "ingressBurst of 12104 bits cannot pass a frame of 1514 bytes: 12112 bits are needed",
        ),
        (json!({"egressRate": 8_000, "egressBurst": 80}), "egressBurst of 80 bits cannot pass a frame"),
        (json!({"egressRate": 8, "egressBurst": 80_000}), "egressRate of 8 bits per second is too low for a frame"),
    ] {
        limited.run(Add, &keys).expect_error(7, text);
        assert_eq!(limited.state(), before);
    }
    limited.succeeds(&[Add, Check, Del], &least);
    limited.sandbox.sh("ip link set host0 mtu 9000");
    limited.run(Add, &least).expect_error(7, "a frame of 9014 bytes: 72112 bits are needed");
}

/// It sends 2^32-1 bits, whatever the rate is. The reference makes a bucket of 21 megabytes and a queue of an hour of it.
#[test]
fn the_burst_of_containerd_does_not_wrap() {
    let limited = Limited::new();
    let keys = json!({"runtimeConfig": {"bandwidth": {
        "IngressRate": 1_000_000, "IngressBurst": 4_294_967_295_u64, "EgressRate": 0, "EgressBurst": 0,
    }}});
    limited.succeeds(&[Add, Check], &keys);
    let bucket = limited.bucket("host0");
    assert!(bucket.contains("rate 1Mbit") && bucket.contains("burst 34359738b"), "{bucket}");
    limited.succeeds(&[Del], &keys);
}

#[test]
fn a_rate_beyond_32_bits_is_that_rate() {
    let limited = Limited::new();
    let keys = json!({"ingressRate": 40_000_000_000_u64, "ingressBurst": 100_000_000});
    limited.succeeds(&[Add, Check], &keys);
    assert!(limited.bucket("host0").contains("rate 40Gbit"), "{}", limited.bucket("host0"));
}

/// At 10 gigabits a frame takes less than two microseconds, to which the reference rounds.
#[test]
fn a_burst_of_one_frame_passes_it_at_any_rate() {
    let limited = Limited::new();
    let keys = json!({"ingressRate": 10_000_000_000_u64, "ingressBurst": 12_112});
    limited.succeeds(&[Add, Check], &keys);
    limited.sandbox.sh("ip address add 10.90.0.1/24 dev host0");
    limited.container.sh("ip address add 10.90.0.2/24 dev eth0");
    limited.sandbox.sh("ping -q -c 1 -W 5 -s 1472 -M do 10.90.0.2");
}

#[test]
fn every_version_of_the_reference_is_served() {
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let limited = Limited::new();
        let mut keys = both();
        keys["cniVersion"] = json!(version);
        keys["prevResult"] = json!({"cniVersion": version, "interfaces": [{"name": "host0"}]});
        let result = limited.run(Add, &keys).result();
        assert_eq!((&result["cniVersion"], &result["interfaces"][1]["name"]), (&json!(version), &json!(IFB)));
        limited.succeeds(&[Del], &keys);
    }
}
