//! Which containers reach each other across one bridge.

use cni_conformance::Feature;
use cni_conformance::Sandbox;
use cni_conformance::uml::on_a_kernel_with;
use serde_json::json;

use super::{address, addressed, assert_does_not_reach, assert_reaches, attach};

const SUBNET: &str = "10.77.0.0/24";

#[test]
fn containers_of_one_vlan_reach_each_other_and_no_other_vlan() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let in_vlan = |vlan: u16, name: &str| attach(&sandbox, &addressed(SUBNET, &json!({"vlan": vlan})), name);
        let (five, five_at) = in_vlan(5, "five");
        let (also_five, also_five_at) = in_vlan(5, "also-five");
        let (seven, seven_at) = in_vlan(7, "seven");
        let (also_seven, also_seven_at) = in_vlan(7, "also-seven");
        let (none, none_at) = attach(&sandbox, &addressed(SUBNET, &json!({})), "none");

        assert_reaches(&five, address(&also_five_at));
        assert_reaches(&also_five, address(&five_at));
        assert_reaches(&seven, address(&also_seven_at));
        assert_reaches(&also_seven, address(&seven_at));
        for (from, target) in
            [(&five, &seven_at), (&seven, &five_at), (&five, &none_at), (&none, &five_at), (&none, &seven_at)]
        {
            assert_does_not_reach(from, address(target));
        }
    });
}

#[test]
fn a_trunk_carries_other_vlans_with_a_tag_and_its_own_without() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let in_vlan = |vlan: u16, name: &str| attach(&sandbox, &addressed(SUBNET, &json!({"vlan": vlan})), name);
        let (_, five_at) = in_vlan(5, "five");
        let (_, six_at) = in_vlan(6, "six");
        let (_, seven_at) = in_vlan(7, "seven");
        let keys = json!({"vlan": 5, "vlanTrunk": [{"id": 5}, {"id": 7}]});
        let (trunk, _) = attach(&sandbox, &addressed(SUBNET, &keys), "trunk");
        assert_reaches(&trunk, address(&five_at));
        assert_does_not_reach(&trunk, address(&seven_at));

        for vlan in [6, 7] {
            trunk.sh(&format!("ip link add link eth0 name eth0.{vlan} type vlan id {vlan}"));
            trunk.sh(&format!("ip address add 10.77.0.{}/32 dev eth0.{vlan}", 200 + vlan));
            trunk.sh(&format!("ip link set eth0.{vlan} up"));
        }
        trunk.sh(&format!("ip route add {} dev eth0.7 src 10.77.0.207", address(&seven_at)));
        trunk.sh(&format!("ip route add {} dev eth0.6 src 10.77.0.206", address(&six_at)));
        assert_reaches(&trunk, address(&seven_at));
        assert_does_not_reach(&trunk, address(&six_at));
    });
}

#[test]
fn the_default_vlan_that_is_kept_receives_what_the_default_vlan_sends() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let (_, default_at) = attach(&sandbox, &addressed(SUBNET, &json!({"vlanTrunk": []})), "default");
        let keys = json!({"vlan": 5, "preserveDefaultVlan": true});
        let (kept, kept_at) = attach(&sandbox, &addressed(SUBNET, &keys), "kept");
        let (five, _) = attach(&sandbox, &addressed(SUBNET, &json!({"vlan": 5})), "five");
        assert_reaches(&five, address(&kept_at));
        // What it sends itself is of VLAN 5, so there is no answer from VLAN 1.
        assert_does_not_reach(&kept, address(&default_at));
    });
}
