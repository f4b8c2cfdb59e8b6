//! GC: what was written down about containers that were lost without DEL.

use cni_conformance::Verb::{Add, Gc};
use serde_json::json;

use crate::tuning::setup::{BACKUP, Tuned, file};

#[test]
fn gc_removes_the_files_of_containers_that_are_not_valid_and_no_others() {
    let tuned = Tuned::new();
    let keys = json!({"mtu": 1400, "cniVersion": "1.1.0", "prevResult": {}});
    let before = tuned.state();
    tuned.call(Add, &keys).run().expect_success();
    let kept = tuned.state();
    tuned.call(Add, &keys).container_id("c2").run().expect_success();
    let mut elsewhere = keys.clone();
    elsewhere["name"] = json!("n2");
    tuned.call(Add, &elsewhere).container_id("c3").run().expect_success();
    let gc = |network: &str, valid: serde_json::Value| {
        let keys = json!({"cniVersion": "1.1.0", "name": network, "cni.dev/valid-attachments": valid});
        tuned.call(Gc, &keys).run().expect_success();
    };
    gc("n1", json!([{"containerID": "c1", "ifname": "eth0"}]));
    let files = ["c1", "c2", "c3"].map(|id| file(&BACKUP.replace("c1", id)).is_some());
    assert_eq!(files, [true, false, true]);
    gc("n2", json!([]));
    cni_conformance::state::assert_same(&kept, &tuned.state());
    gc("n1", json!([]));
    tuned.container.sh("ip link set eth0 mtu 1500");
    let left = cni_conformance::state::diff(&before, &tuned.state());
    assert_eq!(left, ["+ files: /run/cni/tuning 40700"]);
}
