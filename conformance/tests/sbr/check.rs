//! CHECK: whether packets with an address of the interface find their way to it.

use cni_conformance::Verb::{Add, Check};
use cni_conformance::cases::for_each;
use serde_json::json;

use crate::sbr::setup::Routed;

#[test]
fn whatever_is_missing_is_named() {
    let rows = [
        ("ip rule del from 10.91.0.2", "Failed to find the rule from 10.91.0.2: its packets do not leave by net1"),
        ("ip -6 rule del from fd00:91::2", "Failed to find the rule from fd00:91::2"),
        ("ip route flush table 100", "Failed to find the default route by 10.91.0.1 in table 100"),
        ("ip -6 route del default table 101", "Failed to find the default route by fd00:91::1 in table 101"),
    ];
    for_each(rows.map(|row| (row.0, row)), |(change, text)| {
        let routed = Routed::new();
        routed.succeeds(&[Add, Check], &json!({}));
        routed.container.sh(change);
        let before = routed.state();
        routed.run(Check, &json!({})).expect_error(100, text);
        assert_eq!(routed.state(), before);
    });
}

#[test]
fn the_rules_must_lead_to_the_table_that_is_named() {
    let routed = Routed::new();
    routed.succeeds(&[Add, Check], &json!({"table": 5000}));
    routed.run(Check, &json!({"table": 5001})).expect_error(100, "Failed to find the rule from 10.91.0.2");
}
