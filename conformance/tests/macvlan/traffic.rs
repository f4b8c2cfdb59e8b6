//! Which containers reach each other in each mode, and a master without a carrier.

use std::time::{Duration, Instant};

use cni_conformance::traffic::ping;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature, Network, Outside};
use serde_json::json;

use crate::on_a_master::{NEVER, UPLINK, World, assert_reaches, of_both_families};

#[test]
fn the_mode_says_who_reaches_whom() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        for (mode, reaches) in [("bridge", true), ("private", false), ("vepa", false)] {
            let world = World::new(Feature::MacvlanLinks);
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
    on_a_kernel_with(Feature::MacvlanLinks, || {
        let world = World::new(Feature::MacvlanLinks);
        let list = world.network(&json!({"mode": "passthru"}));
        let (first, attachment) = world.attach(&list, "c1");
        let mac = Network::observe(world.sandbox.host()).link(UPLINK).expect("the master").mac.clone();
        assert_eq!(Network::observe(&first).link("eth0").expect("the link").mac, mac);
        assert_reaches(&first, "10.7.0.1");
        world.runtime(&list).check(&attachment).expect_success();
        let second = world.sandbox.container("c2");
        let chain = world.runtime(&list).add(&mut Attachment::new("c2", &second));
        let error = chain.expect_error("macvlan", 101, "failed to create macvlan: invalid argument");
        assert!(error.details.contains("passthru"), "{error:?}");
        world.runtime(&list).del(&attachment).expect_success();
        world.attach(&list, "c3");
    });
}

// The reference waits for five seconds.
#[test]
fn a_master_without_a_carrier_is_not_waited_for() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        let world = World::new(Feature::MacvlanLinks);
        world.outside.sh(&format!("ip link set {} down", Outside::LINK));
        let started = Instant::now();
        world.attach(&world.network(&json!({"ipam": of_both_families()})), "c1");
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    });
}
