//! ADD that comes again.

use cni_conformance::Verb::{Add, Check, Del};
use serde_json::json;

use crate::sbr::setup::Routed;

#[test]
fn add_can_be_repeated() {
    for keys in [json!({}), json!({"table": 5000})] {
        let routed = Routed::new();
        let before = routed.state();
        routed.succeeds(&[Add], &keys);
        let after = routed.state();
        routed.succeeds(&[Add, Check], &keys);
        assert_eq!(routed.state(), after);
        routed.succeeds(&[Del], &keys);
        assert_eq!(routed.state(), before);
    }
}

#[test]
fn what_was_removed_is_made_again() {
    let routed = Routed::new();
    routed.succeeds(&[Add], &json!({}));
    let after = routed.state();
    for line in ["ip rule del from 10.91.0.2", "ip -6 route del default table 101"] {
        routed.container.sh(line);
        routed.succeeds(&[Add, Check], &json!({}));
    }
    let missing: Vec<&String> =
        after.iter().filter(|line| line.contains("101") && !routed.state().contains(line)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Two plugins for one container at the same time choose different tables.
#[test]
fn two_networks_at_once_have_tables_of_their_own() {
    let routed = Routed::new();
    routed.container.sh("ip address add 10.94.0.2/24 dev eth0");
    let result = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.94.0.2/24"}]});
    let first = routed.call(Add, &json!({}));
    let second = routed.call(Add, &json!({"name": "n2", "prevResult": result})).ifname("eth0");
    for outcome in cni_conformance::at_once(&[first, second]) {
        outcome.expect_success();
    }
    let tables: Vec<String> =
        routed.rules().iter().filter_map(|rule| rule.rsplit(' ').next().map(str::to_owned)).collect();
    let different: std::collections::BTreeSet<&String> = tables.iter().collect();
    assert_eq!((tables.len(), different.len()), (3, 3), "{tables:?}");
}
