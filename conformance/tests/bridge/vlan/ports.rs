//! The VLANs of a container's port, and whether the bridge filters VLANs.

use cni_conformance::cases::for_each;
use cni_conformance::injection::calls_of;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature, Network, Runtime, Sandbox, Verb};
use serde_json::{Value, json};

use super::{attach, interface, network, vlans};

#[test]
fn a_port_takes_part_in_the_vlans_of_the_configuration_and_in_no_other() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let rows = [
            (json!({"vlan": 5}), &["5 pvid untagged"][..]),
            (json!({"vlan": 4094}), &["4094 pvid untagged"]),
            (json!({"vlan": 1}), &["1 pvid untagged"]),
            (json!({"vlan": 5, "preserveDefaultVlan": true}), &["1 untagged", "5 pvid untagged"]),
            (json!({"vlan": 5, "preserveDefaultVlan": false}), &["5 pvid untagged"]),
            (json!({"vlanTrunk": [{"id": 20}]}), &["1 pvid untagged", "20"]),
            (json!({"vlanTrunk": [{"id": 20}], "preserveDefaultVlan": true}), &["1 pvid untagged", "20"]),
            (
                json!({"vlanTrunk": [{"id": 30}, {"minID": 20, "maxID": 22, "id": 10}]}),
                &["1 pvid untagged", "10", "20-22", "30"],
            ),
            (json!({"vlanTrunk": [{"id": 21}, {"minID": 20, "maxID": 22}, {"id": 23}]}), &["1 pvid untagged", "20-23"]),
            (json!({"vlan": 5, "vlanTrunk": [{"minID": 10, "maxID": 12}]}), &["5 pvid untagged", "10-12"]),
            (json!({"vlanTrunk": [{"minID": 1, "maxID": 3}]}), &["1 pvid untagged", "2-3"]),
            (json!({"vlanTrunk": []}), &["1 pvid untagged"]),
            (json!({"vlanTrunk": [{}]}), &["1 pvid untagged"]),
            (json!({"preserveDefaultVlan": true}), &["1 pvid untagged"]),
            (json!({"vlan": 0}), &["1 pvid untagged"]),
        ];
        for_each(rows.map(|(keys, want)| (keys.to_string(), (keys, want))), |(keys, want)| {
            let sandbox = Sandbox::new();
            let (_, attachment) = attach(&sandbox, &network(&keys), "c1");
            assert_eq!(vlans(&sandbox, &interface(&attachment, 1)), want);
        });
    });
}

// The reference sets the tagged VLANs last, and the port's own one loses both flags.
#[test]
fn the_ports_own_vlan_stays_untagged_when_the_trunk_repeats_it() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let rows = [
            (json!({"vlan": 7, "vlanTrunk": [{"id": 20}, {"id": 7}]}), &["7 pvid untagged", "20"][..]),
            (json!({"vlan": 7, "vlanTrunk": [{"minID": 6, "maxID": 8}]}), &["6", "7 pvid untagged", "8"]),
            (
                json!({"vlan": 7, "vlanTrunk": [{"id": 7}], "preserveDefaultVlan": true}),
                &["1 untagged", "7 pvid untagged"],
            ),
        ];
        for_each(rows.map(|(keys, want)| (keys.to_string(), (keys, want))), |(keys, want)| {
            let sandbox = Sandbox::new();
            let (_, attachment) = attach(&sandbox, &network(&keys), "c1");
            assert_eq!(vlans(&sandbox, &interface(&attachment, 1)), want);
        });
    });
}

// The reference makes one request for each VLAN.
#[test]
fn a_trunk_of_all_vlans_takes_hardly_more_calls_than_one_of_one() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let add = |keys: Value, name: &str| {
            let network = network(&keys);
            let (_, attachment) = attach(&sandbox, &network, name);
            let other = format!("{name}-traced");
            let traced = Attachment::new(&other, &sandbox.container(&other));
            let calls = calls_of(&Runtime::new(&sandbox, network).invocation(Verb::Add, "bridge", &traced, None));
            (vlans(&sandbox, &interface(&attachment, 1)), calls.len())
        };
        add(json!({"vlanTrunk": []}), "first");
        let (ports, one) = add(json!({"vlanTrunk": [{"id": 20}]}), "one");
        assert_eq!(ports, ["1 pvid untagged", "20"]);
        let (ports, all) = add(json!({"vlanTrunk": [{"minID": 1, "maxID": 4094}]}), "all");
        assert_eq!(ports, ["1 pvid untagged", "2-4094"]);
        assert!(all < one + 50, "{all} calls for all, {one} for one");
    });
}

#[test]
fn a_bridge_is_made_with_vlan_filtering_if_and_only_if_vlans_are_asked_for() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let rows = [
            (json!({}), 0),
            (json!({"vlan": 0}), 0),
            (json!({"vlanTrunk": null}), 0),
            (json!({"preserveDefaultVlan": true}), 0),
            (json!({"vlan": 5}), 1),
            (json!({"vlanTrunk": []}), 1),
            (json!({"vlanTrunk": [{}]}), 1),
            (json!({"vlanTrunk": [{"id": 20}]}), 1),
        ];
        for_each(rows.map(|(keys, want)| (keys.to_string(), (keys, want))), |(keys, want)| {
            let sandbox = Sandbox::new();
            attach(&sandbox, &network(&keys), "c1");
            assert_eq!(filtering(&sandbox), want);
        });
    });
}

fn filtering(sandbox: &Sandbox) -> u64 {
    let links: Value = serde_json::from_str(&sandbox.sh("ip -j -d link show dev br0")).expect("ip prints JSON");
    links[0]["linkinfo"]["info_data"]["vlan_filtering"].as_u64().expect("a bridge has vlan_filtering")
}

#[test]
fn an_existing_bridge_is_not_changed_and_one_that_does_not_filter_is_warned_of() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        sandbox.sh("ip link add br0 type bridge");
        let runtime = Runtime::new(&sandbox, network(&json!({"vlan": 5})));
        let mut attachment = Attachment::new("c1", &sandbox.container("c1"));
        let chain = runtime.add(&mut attachment);
        chain.expect_success();
        assert_eq!(filtering(&sandbox), 0);
        assert_eq!(vlans(&sandbox, &interface(&attachment, 1)), ["5 pvid untagged"]);
        let reported = chain.step("bridge").stderr();
        assert!(reported.contains("bridge br0 does not filter VLANs"), "no warning: {reported}");

        sandbox.sh("ip link set br0 type bridge vlan_filtering 1");
        let mut second = Attachment::new("c2", &sandbox.container("c2"));
        let chain = runtime.add(&mut second);
        chain.expect_success();
        assert_eq!(chain.step("bridge").stderr(), "");
    });
}

#[test]
fn the_ports_of_other_containers_and_the_bridge_keep_their_vlans() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let five = network(&json!({"vlan": 5}));
        let (_, first) = attach(&sandbox, &five, "c1");
        let (_, second) = attach(&sandbox, &network(&json!({"vlan": 7, "vlanTrunk": [{"id": 20}]})), "c2");
        Runtime::new(&sandbox, five.clone()).del(&first).expect_success();
        assert_eq!(vlans(&sandbox, &interface(&second, 1)), ["7 pvid untagged", "20"]);
        assert_eq!(vlans(&sandbox, "br0"), ["1 pvid untagged"]);
        assert!(Network::observe(sandbox.host()).link(&interface(&first, 1)).is_none(), "the port is still there");
        Runtime::new(&sandbox, five).del(&first).expect_success();
    });
}
