//! CHECK of containers in VLANs. The reference looks at none of this.

use cni_conformance::cases::for_each;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Feature, Runtime, Sandbox};
use serde_json::{Value, json};

use super::{addressed, attach, interface};

/// The code of a CHECK that found something missing.
const CHECK_FAILED: u64 = 100;

fn list() -> Value {
    let keys = json!({"vlan": 5, "vlanTrunk": [{"minID": 20, "maxID": 22}], "isGateway": true});
    addressed("10.5.0.0/24", &keys)
}

#[test]
fn check_passes_after_add_and_with_more_vlans_than_were_asked_for() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let (_, attachment) = attach(&sandbox, &list(), "c1");
        let runtime = Runtime::new(&sandbox, list());
        runtime.check(&attachment).expect_success();
        sandbox.sh(&format!("bridge vlan add dev {} vid 30", interface(&attachment, 1)));
        runtime.check(&attachment).expect_success();
        let other = json!({"vlan": 7});
        let (_, second) = attach(&sandbox, &addressed("10.5.0.0/24", &other), "c2");
        Runtime::new(&sandbox, addressed("10.5.0.0/24", &other)).check(&second).expect_success();
        runtime.check(&attachment).expect_success();
    });
}

#[test]
fn check_fails_when_a_vlan_or_the_gateway_is_missing() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let rows = [
            ("bridge vlan del dev {port} vid 5", "VLAN 5 not found"),
            ("bridge vlan del dev {port} vid 21", "VLAN 21 not found"),
            ("bridge vlan del dev {port} vid 20-22", "VLAN 20 not found"),
            ("bridge vlan add dev {port} vid 5", "VLAN 5 not found"),
            ("bridge vlan add dev {port} vid 7 pvid untagged", "VLAN 5 not found"),
            ("bridge vlan add dev {port} vid 22 untagged", "VLAN 22 not found"),
            ("ip address del 10.5.0.1/24 dev br0.5", "br0.5"),
            ("ip link set br0.5 down", "br0.5"),
            ("ip link del br0.5", "br0.5"),
        ];
        for_each(rows.map(|row| (row.0, row)), |(command, text)| {
            let sandbox = Sandbox::new();
            let (_, attachment) = attach(&sandbox, &list(), "c1");
            sandbox.sh(&command.replace("{port}", &interface(&attachment, 1)));
            Runtime::new(&sandbox, list()).check(&attachment).expect_error("bridge", CHECK_FAILED, text);
        });
    });
}
