//! What only VLANs have: a number, one link for each, and a master that must be up.

use cni_conformance::traffic::ping;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature};
use serde_json::json;
use std::time::Duration;

use crate::on_a_master::{MasterHost, UPLINK, assert_reaches, has_eth0, shell};

const INVALID: u64 = 7;
const TRY_AGAIN: u64 = 11;
const CONFLICT: u64 = 103;

#[test]
fn the_frames_of_a_container_have_its_vlan() {
    on_a_kernel_with(Feature::VlanLinks, || {
        let machine = MasterHost::new(Feature::VlanLinks);
        let (first, _) = machine.attach(&machine.network(&json!({})), "c1");
        let (second, _) = machine.attach(&machine.network(&json!({"vlanId": 6})), "c2");
        assert_reaches(&first, "10.7.0.1");
        for (from, target) in [(&second, "10.7.0.1"), (&second, "10.7.0.2"), (&first, "10.7.0.3")] {
            let target = target.parse().expect("an address");
            assert!(!ping(from, target, Duration::from_millis(300)), "{target} is in another VLAN");
        }
        assert!(shell(&second, "ip -d link show eth0").contains("vlan protocol 802.1Q id 6 <REORDER_HDR>"));
    });
}

// The reference says that 4095 is allowed, and takes the lack of a number for 0.
#[test]
fn a_number_of_no_vlan_is_refused() {
    on_a_kernel_with(Feature::VlanLinks, || {
        let machine = MasterHost::new(Feature::VlanLinks);
        let container = machine.sandbox.container("c1");
        for id in [-1, 4095] {
            let text = format!("invalid VLAN ID {id} (must be between 0 and 4094 inclusive)");
            let chain =
                machine.runtime(&machine.network(&json!({"vlanId": id}))).add(&mut Attachment::new("c1", &container));
            chain.expect_error("vlan", INVALID, &text);
        }
        let list = machine.network(&json!({"vlanId": null}));
        machine.runtime(&list).add(&mut Attachment::new("c1", &container)).expect_success();
        assert!(shell(&container, "ip -d link show eth0").contains("802.1Q id 0"));
    });
}

/// The kernel has one link for each VLAN of a master.
#[test]
fn a_vlan_that_has_a_link_is_refused_and_named() {
    on_a_kernel_with(Feature::VlanLinks, || {
        let machine = MasterHost::new(Feature::VlanLinks);
        let list = machine.network(&json!({}));
        let (_, first) = machine.attach(&list, "c1");
        let second = machine.sandbox.container("c2");
        let refused = |details: &str| {
            let chain = machine.runtime(&list).add(&mut Attachment::new("c2", &second));
            let error = chain.expect_error("vlan", CONFLICT, "failed to create vlan: file exists");
            assert!(error.details.contains(details), "{error:?}");
            assert!(!has_eth0(&second));
        };
        refused("VLAN 5 of uplink0 has a link already");
        machine.runtime(&list).del(&first).expect_success();
        machine.sandbox.sh(&format!("ip link add link {UPLINK} name trunk.5 type vlan id 5"));
        refused("VLAN 5 of uplink0 has the link trunk.5 beside it");
        machine.sandbox.sh("ip link del trunk.5");
        machine.runtime(&list).add(&mut Attachment::new("c2", &second)).expect_success();
    });
}

// The reference makes the link, and leaves it when it cannot be set up.
#[test]
fn a_master_that_is_down_is_named_and_nothing_is_left() {
    on_a_kernel_with(Feature::VlanLinks, || {
        let machine = MasterHost::new(Feature::VlanLinks);
        machine.sandbox.sh(&format!("ip link set {UPLINK} down"));
        let container = machine.sandbox.container("c1");
        let chain = machine.runtime(&machine.network(&json!({}))).add(&mut Attachment::new("c1", &container));
        chain.expect_error("vlan", TRY_AGAIN, &format!("network is down: its master {UPLINK:?} is down"));
        assert!(!has_eth0(&container));
        assert_eq!(machine.leases(), [""; 0]);
    });
}
