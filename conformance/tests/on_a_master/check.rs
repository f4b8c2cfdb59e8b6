//! CHECK names what is not as ADD made it, and changes nothing.

use cni_conformance::cases::for_each;
use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Feature, Runtime};
use serde_json::json;

use super::{KINDS, MasterHost, contents, plugin, shell};

const CHECK_FAILED: u64 = 100;

#[test]
fn check_passes_after_add_and_whatever_does_not_matter() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        for change in ["true", "ip address add 10.7.0.99/24 dev eth0", "ip route add 10.98.0.0/16 via 10.7.0.1"] {
            container.sh(change);
            machine.runtime(&list).check(&attachment).expect_success();
        }
    });
}

#[test]
fn check_names_what_is_missing_or_another() {
    on_kernels_with(KINDS, |kind| {
        let word = plugin(kind);
        let other_kind = format!("Interface eth0 does not have link type of {word}");
        let rows = [
            ("ip link del eth0", "Interface name eth0 not found in the container namespace"),
            ("ip link set eth0 down", "Interface eth0 in the container namespace is down"),
            ("ip address del 10.7.0.2/24 dev eth0", "Failed to match addr 10.7.0.2/24 on interface eth0"),
            ("ip route del 10.7.0.0/24 dev eth0", "Failed to find the route to 10.7.0.0/24"),
            ("ip route del 10.99.0.0/16", "10.99.0.0/16"),
            ("ip link del eth0; ip link add eth0 type bridge", &other_kind),
        ];
        for_each(rows.map(|row| (row.0, row)), |(change, text)| {
            let machine = MasterHost::new(kind);
            let list = machine.network(&json!({}));
            let (container, attachment) = machine.attach(&list, "c1");
            shell(&container, change);
            let before = contents(&container);
            machine.runtime(&list).check(&attachment).expect_error(word, CHECK_FAILED, text);
            assert_eq!(contents(&container), before);
        });
    });
}

/// What each kind has of its own, and what CHECK says when the link is otherwise than the configuration.
#[test]
fn check_compares_the_link_with_the_configuration() {
    on_kernels_with(KINDS, |kind| {
        let rows = match kind {
            Feature::MacvlanLinks => vec![
                (
                    json!({"mode": "vepa"}),
                    "ip link set eth0 type macvlan mode private",
                    "container macvlan mode private does not match expected value: vepa",
                ),
                (
                    json!({}),
                    "ip link set eth0 address 02:00:00:00:00:07",
                    "doesn't match container Mac: 02:00:00:00:00:07",
                ),
            ],
            Feature::VlanLinks => vec![
                (
                    json!({}),
                    "ip link set eth0 address 02:00:00:00:00:07",
                    "doesn't match container Mac: 02:00:00:00:00:07",
                ),
                (json!({"mtu": 1400}), "ip link set eth0 mtu 1300", "Interface eth0 has MTU 1300, not 1400"),
            ],
            Feature::IpvlanLinks => vec![(
                json!({}),
                "ip link set eth0 type ipvlan mode l3",
                "Container IPVlan mode l3 does not match expected value: l2",
            )],
            Feature::BridgeVlans | Feature::DummyLinks | Feature::Hardware | Feature::VrfLinks => {
                panic!("{kind:?} is no kind of link on a master")
            }
        };
        for_each(rows.into_iter().map(|row| (row.2, row)), |(keys, change, text)| {
            let machine = MasterHost::new(kind);
            let list = machine.network(&keys);
            let (container, attachment) = machine.attach(&list, "c1");
            machine.runtime(&list).check(&attachment).expect_success();
            container.sh(change);
            machine.runtime(&list).check(&attachment).expect_error(plugin(kind), CHECK_FAILED, text);
        });
    });
}

#[test]
fn check_asks_the_ipam_plugin() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (_, attachment) = machine.attach(&list, "c1");
        machine.sandbox.sh("rm /run/ipam/lan/10.7.0.2");
        assert!(!machine.runtime(&list).check(&attachment).succeeded(), "the lease is gone, and CHECK does not say so");
    });
}

/// Without one, there is nothing to compare with.
#[test]
fn check_needs_the_result_of_add() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (_, attachment) = machine.attach(&list, "c1");
        let check = Runtime::new(&machine.sandbox, list.clone()).check(&attachment.without_result());
        check.expect_error(plugin(kind), 7, "Required prevResult missing");
    });
}
