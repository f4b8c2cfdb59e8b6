//! Which containers reach each other.

use cni_conformance::traffic::ping;
use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Feature, Outside};
use serde_json::json;

use super::{KINDS, MasterHost, NEVER, assert_reaches, of_both_families};

#[test]
fn containers_reach_the_network_and_each_other_by_both_families() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({"ipam": of_both_families()}));
        let (first, _) = machine.attach(&list, "c1");
        for target in ["10.7.0.1", "fd00:7::1"] {
            assert_reaches(&first, target);
        }
        if let Some((second, targets)) =
            beside(kind).then(|| (machine.attach(&list, "c2").0, ["10.7.0.2", "fd00:7::2"]))
        {
            targets.into_iter().for_each(|target| assert_reaches(&second, target));
        }
        let target = "10.7.0.2".parse().expect("an address");
        assert!(!ping(machine.sandbox.host(), target, NEVER), "the host has a way to its own containers");
        assert_reaches(&machine.outside, "10.7.0.2");
    });
}

/// Whether a master has more than one link of the configuration.
fn beside(kind: Feature) -> bool {
    match kind {
        Feature::MacvlanLinks | Feature::IpvlanLinks => true,
        Feature::VlanLinks | Feature::BridgeVlans | Feature::DummyLinks | Feature::Hardware | Feature::VrfLinks => {
            false
        }
    }
}

/// Neighbours that know the address by another MAC address learn of the new one when the link comes up.
#[test]
fn neighbours_learn_of_a_new_owner_of_an_address() {
    on_kernels_with(&[Feature::MacvlanLinks, Feature::IpvlanLinks], |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        machine
            .outside
            .sh(&format!("ip neighbour replace 10.7.0.2 lladdr 02:00:00:00:00:99 dev {} nud stale", Outside::LINK));
        machine.attach(&list, "c1");
        assert_reaches(&machine.outside, "10.7.0.2");
    });
}
