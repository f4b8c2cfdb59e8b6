//! GC removes only the records of containers that are not valid.

use cni_conformance::Verb::{Add, Gc};
use serde_json::json;

use crate::route_override::setup::{Routed, all_keys};

fn records() -> usize {
    let listed = std::process::Command::new("find")
        .args(["/run/cni/.cni-plugins-rs", "-type", "f", "-path", "*routeoverride*"])
        .output()
        .expect("run find");
    String::from_utf8_lossy(&listed.stdout).lines().count()
}

#[test]
fn gc_removes_the_record_of_a_container_that_is_not_valid() {
    let routed = Routed::new();
    routed.succeeds(&[Add], &all_keys());
    assert_eq!(records(), 1);
    let valid = json!([{"containerID": "c1", "ifname": "eth0"}]);
    routed.succeeds(&[Gc], &json!({"cniVersion": "1.1.0", "cni.dev/valid-attachments": valid}));
    assert_eq!(records(), 1);
    routed.succeeds(&[Gc], &json!({"cniVersion": "1.1.0", "cni.dev/valid-attachments": []}));
    assert_eq!(records(), 0);
}
