//! CHECK names the route that differs from what ADD made, unless `skipcheck` is set.

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use serde_json::json;

use crate::route_override::setup::{Routed, all_keys};

#[test]
fn whatever_was_changed_since_is_named() {
    let rows = [
        ("ip route del 10.94.0.0/16", "the route to 10.94.0.0/16 on eth0 is missing"),
        ("ip route replace 10.94.0.0/16 via 10.91.0.8", "the route to 10.94.0.0/16 on eth0 is missing"),
        ("ip route add default via 10.91.0.1", "the route to 0.0.0.0/0 on eth0 is not removed"),
        ("ip route add 10.93.0.0/16 via 10.91.0.9", "the route to 10.93.0.0/16 on eth0 is not removed"),
        ("ip -6 route del fd00:94::/64", "the route to fd00:94::/64 on eth0 is missing"),
    ];
    for_each(rows.map(|row| (row.0, row)), |(change, message)| {
        let routed = Routed::new();
        let result = routed.call(Add, &all_keys()).run().result();
        let keys = with(&all_keys(), &json!({"prevResult": result}));
        routed.call(Check, &keys).run().expect_success();
        routed.container.sh(change);
        routed.call(Check, &keys).run().expect_error(100, message);
        routed.call(Check, &with(&keys, &json!({"skipcheck": true}))).run().expect_success();
    });
}

/// cri-o calls CHECK right after ADD.
#[test]
fn a_route_of_another_table_is_added_once_and_removed() {
    let routed = Routed::new();
    let keys = json!({"addroutes": [
        {"dst": "0.0.0.0/0", "table": 200}, {"dst": "10.96.0.0/16", "table": 0}, {"dst": "10.95.0.0/16", "scope": 253},
    ]});
    let before = routed.state();
    for _ in ["once", "again"] {
        let result = routed.call(Add, &keys).run().result();
        let shown = routed.container.sh("ip route show table 200");
        assert_eq!(shown.trim(), "default via 10.91.0.1 dev eth0");
        routed.call(Check, &with(&keys, &json!({"prevResult": result}))).run().expect_success();
    }
    routed.container.sh("ip route flush table 200");
    routed.call(Check, &keys).run().expect_error(100, "the route to 0.0.0.0/0 on eth0 is missing");
    routed.call(Add, &keys).run().expect_success();
    routed.succeeds(&[Del], &keys);
    let shown = routed.container.exec(&["ip", "route", "show", "table", "200"]).stdout;
    assert_eq!((shown.as_str(), routed.state()), ("", before));
}
