//! Refused calls: one clear error, and nothing changed.

use cni_conformance::Verb::{Add, Status};
use serde_json::{Value, json};

use crate::sbr::setup::{Routed, ips};

#[track_caller]
fn refuses(routed: &Routed, keys: &Value, code: u64, text: &str) {
    let before = routed.state();
    routed.run(Add, keys).expect_error(code, text);
    assert_eq!(routed.state(), before);
}

fn reported(routed: &Routed, ips: Value) -> Value {
    let interface = |name: &str| json!({"name": name, "sandbox": routed.container.path()});
    json!({"prevResult": {"cniVersion": "1.0.0", "interfaces": [interface("eth0"), interface("net1")], "ips": ips}})
}

#[test]
fn a_result_without_an_address_of_the_interface_is_refused() {
    let routed = Routed::new();
    let text = "No IP addresses supplied on interface: net1";
    refuses(&routed, &reported(&routed, json!([])), 7, text);
    refuses(&routed, &reported(&routed, json!([{"address": "10.90.0.2/24", "interface": 0}])), 7, text);
    refuses(&routed, &json!({"prevResult": null}), 7, "This plugin must be called as chained plugin");
}

/// The reference takes the address of a stranger for the container's.
#[test]
fn an_address_of_an_unknown_interface_is_refused() {
    let routed = Routed::new();
    for index in [2, -1] {
        let keys = reported(&routed, json!([{"address": "10.91.0.2/24", "interface": index}]));
        refuses(&routed, &keys, 7, &format!("has the interface index {index}, and there are 2 interfaces"));
    }
}

#[test]
fn an_invalid_table_is_refused() {
    let routed = Routed::new();
    for table in [json!(0), json!(-1), json!(4_294_967_296_i64)] {
        let text = format!("invalid table {table} (must be between 1 and 4294967295)");
        refuses(&routed, &json!({"table": table}), 7, &text);
        routed.run(Status, &json!({"cniVersion": "1.1.0", "table": table})).expect_error(7, &text);
    }
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let routed = Routed::new();
    let keys = json!({"prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.91.0.2/24"}]}});
    let text = "Cannot find network interface net9: Link not found";
    routed.call(Add, &keys).ifname("net9").run().expect_error(101, text);
}

/// The kernel takes no router that is on no network.
#[test]
fn a_failed_add_leaves_nothing() {
    let routed = Routed::new();
    let mut addresses = ips();
    addresses[1]["gateway"] = json!("fd00:99::1");
    refuses(&routed, &reported(&routed, addresses), 101, "failed to add route ::/0 via fd00:99::1");
}
