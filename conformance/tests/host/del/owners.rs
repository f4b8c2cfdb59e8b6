//! Addresses and host ports that change their owner before the old one's DEL is done.
//!
//! Runtimes repeat DEL and come late with it; by then IPAM may have given the address to another
//! container. The filter rules of the reference name nothing but the address, so its DEL of the
//! old container cuts the new one off.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Flavour};

use crate::del::del_host::{Change, DelHost, DeletedContainer, FIRST, asking_for};

/// The old container's addresses for a new one.
fn add_at_first_address(machine: &DelHost, name: &str, host_port: u16) -> DeletedContainer {
    let attached = machine.add_with(name, host_port, &asking_for(FIRST[0]));
    let result = attached.attachment.result.as_ref().expect("the guest is attached");
    assert_eq!(result["ips"][0]["address"], format!("{}/20", FIRST[0]), "{result:#}");
    attached
}

/// As runtimes send the last DEL of a container.
const LATE_REQUESTS: [(&str, Change); 5] = [
    ("as ADD", |request| request),
    ("netns empty", |request| request.netns("")),
    ("no result", Attachment::without_result),
    ("no ports", Attachment::without_capabilities),
    ("names only", |request| request.netns("").without_result().without_capabilities()),
];

fn every_late_request(run: impl Fn(Flavour, Change)) {
    let rows = Flavour::ALL.into_iter().flat_map(|flavour| LATE_REQUESTS.map(|(name, change)| (flavour, name, change)));
    for_each(rows.map(|row| (format!("{:?} {}", row.0, row.1), row)), |(flavour, _, change)| run(flavour, change));
}

#[test]
fn a_repeated_del_leaves_the_new_owner_of_the_address_alone() {
    every_late_request(|flavour, change| {
        let machine = DelHost::dual_stack(flavour);
        let mut old = machine.add("old", 8080);
        machine.runtime().del(&old.attachment).expect_success();
        old.die();
        let new = add_at_first_address(&machine, "new", 8080);
        let before = machine.host();
        machine.runtime().del(&change(old.attachment.clone())).expect_success();
        machine.skeleton().assert_nothing_else(&before, || machine.host());
        machine.serves(&new);
    });
}

/// The first DEL ended in an error of its last plugin, when the address was free already.
#[test]
fn a_retried_del_leaves_the_new_owner_of_the_address_alone() {
    every_late_request(|flavour, change| {
        let machine = DelHost::dual_stack(flavour);
        let mut old = machine.add("old", 8080);
        machine.runtime_without(&["loopback"]).del(&old.attachment).expect_success();
        let new = add_at_first_address(&machine, "new", 9090);
        let before = machine.host();
        machine.runtime().del(&change(old.attachment.clone())).expect_success();
        machine.skeleton().assert_nothing_else(&before, || machine.host());
        machine.serves(&new);
        old.die();
    });
}

/// The lease was lost, as with a folder that was emptied, so another container got the address
/// before the old one had any DEL.
#[test]
fn a_late_first_del_takes_the_old_container_away_and_leaves_the_new_owner_alone() {
    every_late_request(|flavour, change| {
        let machine = DelHost::dual_stack(flavour);
        let before = machine.host();
        let mut old = machine.add("old", 8080);
        old.die();
        for address in FIRST {
            machine.sandbox.sh(&format!("rm /run/cni/nomad/{address}"));
        }
        let new = add_at_first_address(&machine, "new", 9090);
        machine.runtime().del(&change(old.attachment.clone())).expect_success();
        machine.serves(&new);
        machine.runtime().del(&new.attachment).expect_success();
        machine.skeleton().assert_nothing_else(&before, || machine.host());
    });
}

#[test]
fn del_ends_what_a_host_port_led_to() {
    for flavour in Flavour::ALL {
        let machine = DelHost::dual_stack(flavour);
        let old = machine.add("old", 8080);
        machine.is_reached(&old);
        machine.runtime().del(&old.attachment).expect_success();
        machine.is_silent_at(8080);
        let new = machine.add("new", 8080);
        machine.serves(&new);
    }
}
