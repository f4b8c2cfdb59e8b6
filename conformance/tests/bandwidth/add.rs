//! ADD that comes again, and what is there before it.

use cni_conformance::Verb::{Add, Check, Del};
use serde_json::json;

use crate::bandwidth::setup::{IFB, Limited, both, sending};

#[test]
fn add_can_be_repeated_with_other_limits() {
    let limited = Limited::new();
    let before = limited.state();
    let slower = json!({"ingressRate": 800_000, "ingressBurst": 16_000, "egressRate": 800_000, "egressBurst": 16_000});
    for keys in [both(), both(), slower, both()] {
        limited.succeeds(&[Add, Check], &keys);
        assert_eq!(limited.links("ifb"), [IFB]);
    }
    limited.succeeds(&[Del], &both());
    assert_eq!(limited.state(), before);
}

#[test]
fn an_add_with_fewer_limits_ends_the_others() {
    let receiving = json!({"ingressRate": 8_000_000, "ingressBurst": 160_000});
    for keys in [receiving, sending(), json!({})] {
        let limited = Limited::new();
        limited.succeeds(&[Add, Add, Check], &keys);
        let without_numbers = || {
            let lines = limited.traffic_control();
            (lines.iter().filter(|line| line.contains("tbf") || line.contains("mirred")).count(), limited.links("ifb"))
        };
        let want = without_numbers();
        limited.succeeds(&[Add, Check], &both());
        limited.succeeds(&[Add, Check], &keys);
        assert_eq!(without_numbers(), want, "{keys}");
    }
}

/// As programs with filters of eBPF need it.
#[test]
fn filters_of_other_programs_stay() {
    let limited = Limited::new();
    limited.sandbox.sh("tc qdisc add dev host0 clsact");
    limited.sandbox.sh("tc filter add dev host0 ingress protocol ip prio 1 u32 match ip dst 192.0.2.1 flowid 1:1");
    let before = limited.state();
    limited.succeeds(&[Add, Check, Del], &both());
    assert_eq!(limited.state(), before);
}

#[test]
fn an_ingress_discipline_with_filters_of_others_stays() {
    let limited = Limited::new();
    limited.sandbox.sh("tc qdisc add dev host0 ingress");
    limited.sandbox.sh("tc filter add dev host0 ingress protocol ip prio 1 u32 match ip dst 192.0.2.1 flowid 1:1");
    let before = limited.state();
    limited.succeeds(&[Add, Check, Del], &both());
    assert_eq!(limited.state(), before);
}

#[test]
fn a_redirect_that_leads_nowhere_is_replaced() {
    let limited = Limited::new();
    limited.succeeds(&[Add], &sending());
    limited.sandbox.sh(&format!("ip link del {IFB}"));
    limited.run(Check, &sending()).expect_error(100, "get ifb device: Link not found");
    limited.succeeds(&[Add, Check, Del], &sending());
    assert_eq!(limited.traffic_control(), [""; 0]);
}
