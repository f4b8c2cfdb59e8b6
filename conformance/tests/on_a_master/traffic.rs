//! Who reaches whom.

use std::time::{Duration, Instant};

use cni_conformance::traffic::ping;
use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Feature, Network, Outside};
use serde_json::json;

use super::{KINDS, UPLINK, World, assert_reaches, of_both_families};

/// How long to wait for a packet that must not come.
const NEVER: Duration = Duration::from_millis(300);

#[test]
fn containers_reach_the_network_and_each_other_by_both_families() {
    on_kernels_with(KINDS, |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({"ipam": of_both_families()}));
        let (first, _) = world.attach(&list, "c1");
        for target in ["10.7.0.1", "fd00:7::1"] {
            assert_reaches(&first, target);
        }
        if let Some((second, targets)) = beside(kind).then(|| (world.attach(&list, "c2").0, ["10.7.0.2", "fd00:7::2"]))
        {
            targets.into_iter().for_each(|target| assert_reaches(&second, target));
        }
        let target = "10.7.0.2".parse().expect("an address");
        assert!(!ping(world.sandbox.host(), target, NEVER), "the host has a way to its own containers");
        assert_reaches(&world.outside, "10.7.0.2");
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

#[test]
fn the_mode_says_who_reaches_whom() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        for (mode, reaches) in [("bridge", true), ("private", false), ("vepa", false)] {
            let world = World::new(kind);
            let list = world.network(&json!({"mode": mode}));
            let (first, _) = world.attach(&list, "c1");
            let (second, _) = world.attach(&list, "c2");
            assert_reaches(&first, "10.7.0.1");
            assert_reaches(&second, "10.7.0.1");
            let target = "10.7.0.2".parse().expect("an address");
            assert_eq!(ping(&second, target, NEVER), reaches, "{mode}");
        }
    });
}

#[test]
fn a_link_in_mode_passthru_has_the_master_for_itself() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({"mode": "passthru"}));
        let (first, attachment) = world.attach(&list, "c1");
        let mac = Network::observe(world.sandbox.host()).link(UPLINK).expect("the master").mac.clone();
        assert_eq!(Network::observe(&first).link("eth0").expect("the link").mac, mac);
        assert_reaches(&first, "10.7.0.1");
        world.runtime(&list).check(&attachment).expect_success();
        let second = world.sandbox.container("c2");
        let chain = world.runtime(&list).add(&mut cni_conformance::Attachment::new("c2", &second));
        let error = chain.expect_error("macvlan", 101, "failed to create macvlan: invalid argument");
        assert!(error.details.contains("passthru"), "{error:?}");
        world.runtime(&list).del(&attachment).expect_success();
        world.attach(&list, "c3");
    });
}

/// Neighbours that know the address by another MAC address learn of the new one when the link comes up.
#[test]
fn neighbours_learn_of_a_new_owner_of_an_address() {
    on_kernels_with(&[Feature::MacvlanLinks, Feature::IpvlanLinks], |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({}));
        world
            .outside
            .sh(&format!("ip neighbour replace 10.7.0.2 lladdr 02:00:00:00:00:99 dev {} nud stale", Outside::LINK));
        world.attach(&list, "c1");
        assert_reaches(&world.outside, "10.7.0.2");
    });
}

// The reference waits for five seconds.
#[test]
fn a_master_without_a_carrier_is_not_waited_for() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        let world = World::new(kind);
        world.outside.sh(&format!("ip link set {} down", Outside::LINK));
        let started = Instant::now();
        world.attach(&world.network(&json!({"ipam": of_both_families()})), "c1");
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    });
}
