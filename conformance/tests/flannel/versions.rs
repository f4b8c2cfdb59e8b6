//! Every version of the protocol.

use std::fs;

use serde_json::{Value, json};

use crate::flannel::setup::{composed, file, host};

#[test]
fn each_version_has_its_result_and_is_handed_on() {
    for version in ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let mut host = host();
        host.list["cniVersion"] = json!(version);
        let (_container, attachment) = host.add("c1");
        let result = attachment.result.clone().expect("a result");
        assert_eq!(result["cniVersion"], version);
        let address = if version < "0.3.0" { &result["ip4"]["ip"] } else { &result["ips"][0]["address"] };
        assert_eq!(address, "10.42.1.2/24", "{version}");
        assert_eq!(fs::read_to_string(file("c1")).expect("a state file"), composed(version));
        host.del(&attachment);
    }
}

/// A configuration without a version is handed on without one, and means 0.1.0.
#[test]
fn a_missing_version_stays_missing() {
    let mut host = host();
    host.list["cniVersion"] = json!("");
    let (_container, attachment) = host.add("c1");
    let result: Value = attachment.result.clone().expect("a result");
    assert_eq!((&result["cniVersion"], &result["ip4"]["ip"]), (&json!("0.1.0"), &json!("10.42.1.2/24")));
    let text = fs::read_to_string(file("c1")).expect("a state file");
    assert_eq!(text, composed("").replace(r#""cniVersion":"","#, ""));
    host.del(&attachment);
}
