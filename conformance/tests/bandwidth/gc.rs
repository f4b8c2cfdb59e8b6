//! GC: what containers left that were lost without DEL.

use cni_conformance::Verb::{Add, Gc};
use serde_json::{Value, json};

use crate::bandwidth::setup::{IFB, Limited, both};

fn gc(limited: &Limited, network: &str, valid: &Value) {
    let keys = json!({
        "cniVersion": "1.1.0", "name": network, "prevResult": null, "cni.dev/valid-attachments": valid,
    });
    limited.call(Gc, &keys).run().expect_success();
}

#[test]
fn gc_removes_the_ifbs_of_lost_containers_and_no_others() {
    let limited = Limited::with_second_interface();
    limited.succeeds(&[Add], &both());
    limited.call(Add, &both()).ifname("net1").run().expect_success();
    let second = limited.links("ifb").into_iter().find(|name| name != IFB).expect("a second ifb");
    limited.sandbox.sh("ip link add ifb9 type ifb");
    limited.sandbox.sh("ip link add bwp0123456789ab type ifb");
    let both_valid = json!([{"containerID": "ctr1", "ifname": "eth0"}, {"containerID": "ctr1", "ifname": "net1"}]);
    gc(&limited, "n2", &json!([]));
    gc(&limited, "n1", &both_valid);
    let mut left = limited.links("ifb");
    left.sort_unstable();
    let mut want = vec![IFB.to_owned(), second.clone(), "ifb9".to_owned()];
    want.sort_unstable();
    assert_eq!(left, want, "what the reference left without a user goes, whatever network it was of");
    gc(&limited, "n1", &json!([{"containerID": "ctr1", "ifname": "net1"}]));
    assert!(!limited.links("ifb").contains(&IFB.to_owned()));
    let filters = limited.traffic_control().join("\n");
    assert!(!filters.contains("host0: ") && filters.contains("host1: "), "{filters}");
    limited.container.remove();
    gc(&limited, "n1", &json!([]));
    assert_eq!(limited.links("ifb"), ["ifb9"]);
}
