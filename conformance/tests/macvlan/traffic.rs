//! Which containers reach each other in each mode, and a master without a carrier.

use std::time::{Duration, Instant};

use cni_conformance::cases::one_of_three_within;
use cni_conformance::traffic::ping;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature, Network, Outside};
use serde_json::json;

use crate::on_a_master::{MasterHost, NEVER, UPLINK, assert_reaches, of_both_families};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn the_mode_says_who_reaches_whom() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        for (mode, reaches) in [("bridge", true), ("private", false), ("vepa", false)] {
            let machine = MasterHost::new(Feature::MacvlanLinks);
            let list = machine.network(&json!({"mode": mode}));
            let (first, _) = machine.attach(&list, "c1");
            let (second, _) = machine.attach(&list, "c2");
            assert_reaches(&first, "10.7.0.1");
            assert_reaches(&second, "10.7.0.1");
            let target = "10.7.0.2".parse().expect("an address");
            let time = if reaches { PATIENCE } else { NEVER };
            assert_eq!(ping(&second, target, time), reaches, "{mode}");
        }
    });
}

#[test]
fn a_link_in_mode_passthru_has_the_master_for_itself() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        let machine = MasterHost::new(Feature::MacvlanLinks);
        let list = machine.network(&json!({"mode": "passthru"}));
        let (first, attachment) = machine.attach(&list, "c1");
        let mac = Network::observe(machine.sandbox.host()).link(UPLINK).expect("the master").mac.clone();
        assert_eq!(Network::observe(&first).link("eth0").expect("the link").mac, mac);
        assert_reaches(&first, "10.7.0.1");
        machine.runtime(&list).check(&attachment).expect_success();
        let second = machine.sandbox.container("c2");
        let chain = machine.runtime(&list).add(&mut Attachment::new("c2", &second));
        let error = chain.expect_error("macvlan", 101, "failed to create macvlan: invalid argument");
        assert!(error.details.contains("passthru"), "{error:?}");
        machine.runtime(&list).del(&attachment).expect_success();
        machine.attach(&list, "c3");
    });
}

// The reference waits for five seconds.
#[test]
fn a_master_without_a_carrier_is_not_waited_for() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        one_of_three_within(Duration::from_secs(3), || {
            let machine = MasterHost::new(Feature::MacvlanLinks);
            machine.outside.sh(&format!("ip link set {} down", Outside::LINK));
            let started = Instant::now();
            machine.attach(&machine.network(&json!({"ipam": of_both_families()})), "c1");
            started.elapsed()
        });
    });
}
