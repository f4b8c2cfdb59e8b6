//! Several containers, and two interfaces of one container.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::traffic::ping;
use cni_conformance::{Flavour, Network, Outside, State};

use crate::del::del_host::{DelHost, FIRST, asking_for};

#[test]
fn del_of_one_container_leaves_the_traffic_of_the_other_alone() {
    for flavour in Flavour::ALL {
        let machine = DelHost::dual_stack(flavour);
        let stays = machine.add("stays", 9090);
        let goes = machine.add("goes", 8080);
        machine.serves(&stays);
        machine.serves(&goes);
        machine.runtime().del(&goes.attachment).expect_success();
        machine.serves(&stays);
        machine.is_silent_at(8080);
    }
}

/// Both belong to one container ID, so the reference keeps their masquerade in one chain, and its
/// DEL of one interface flushes that chain and then fails.
#[test]
fn del_of_one_interface_leaves_the_masquerade_of_the_other() {
    let rows =
        Flavour::ALL.into_iter().flat_map(|flavour| [("eth0", "eth1"), ("eth1", "eth0")].map(|row| (flavour, row)));
    for_each(rows.map(|row| (format!("{row:?}"), row)), |(flavour, (stays, goes))| {
        let machine = DelHost::dual_stack(flavour);
        let before = machine.host();
        let container = machine.sandbox.container("both");
        let attach = |ifname: &str| {
            let mut attachment = machine.describe(&container, 8080).without_capabilities().ifname(ifname);
            machine.runtime().add(&mut attachment).expect_success();
            attachment
        };
        let [kept, gone] = [stays, goes].map(attach);
        machine.runtime().del(&gone).expect_success();
        let links: Vec<_> = Network::observe(&container).links.into_iter().map(|link| link.name).collect();
        assert_eq!(links, ["lo", stays]);
        machine.runtime().check(&kept).expect_success();
        for address in [Outside::V4.into(), Outside::V6.into()] {
            // The uplink is new: for a second it asks for no IPv6 neighbour.
            assert!(ping(&container, address, Duration::from_secs(20)), "{address} by {stays}");
        }
        machine.runtime().del(&gone).expect_success();
        machine.runtime().check(&kept).expect_success();
        machine.runtime().del(&kept).expect_success();
        machine.skeleton().assert_nothing_else(&before, || machine.host());
    });
}

/// The runtime knows of ports of one interface only.
#[test]
fn del_of_one_interface_leaves_the_ports_of_the_other() {
    for flavour in Flavour::ALL {
        let machine = DelHost::dual_stack(flavour);
        let before = machine.host();
        let mut attached = machine.add("both", 8080);
        let mut second = attached.attachment.clone().without_result().without_capabilities().ifname("eth1");
        machine.runtime().add(&mut second).expect_success();
        machine.runtime().del(&second).expect_success();
        machine.serves(&attached);
        machine.runtime().del(&attached.attachment).expect_success();
        machine.skeleton().assert_nothing_else(&before, || machine.host());
        attached.die();
    }
}

/// A second DEL of one interface, late, when its address is the other's.
#[test]
fn a_repeated_del_of_one_interface_leaves_the_other_at_its_address() {
    let machine = DelHost::dual_stack(Flavour::Nft);
    let container = machine.sandbox.container("both");
    let mut first = machine.describe(&container, 8080).without_capabilities();
    machine.runtime().add(&mut first).expect_success();
    machine.runtime().del(&first).expect_success();
    let mut second = first.clone().without_result().ifname("eth1").args(&asking_for(FIRST[0]));
    machine.runtime().add(&mut second).expect_success();
    let state = || State::capture(&machine.sandbox, &[&container]);
    let before = state();
    machine.runtime_without(&["loopback"]).del(&first).expect_success();
    machine.skeleton().assert_nothing_else(&before, state);
    machine.runtime().check(&second).expect_success();
}
