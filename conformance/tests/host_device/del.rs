//! DEL whatever was lost, and GC.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::odd_names::{self, ODD_NAMES};
use cni_conformance::{Attachment, Container, ListHost, Loss, Network, Verb, leases};
use serde_json::json;

use crate::host_device::setup::{addressed, by_name, has, host};

/// Does something to the machine, and returns the request that DEL then comes with.
type Before = fn(&mut ListHost, &Container, Attachment) -> Attachment;

const OF_THE_INTERFACE: [(&str, Before); 6] = [
    ("renamed to bytes that are not UTF-8", |_, container, request| {
        odd_names::rename(container, "eth0", ODD_NAMES[0].1);
        request
    }),
    ("renamed to white space", |_, container, request| {
        odd_names::rename(container, "eth0", ODD_NAMES[1].1);
        request
    }),
    ("renamed", |_, container, request| {
        container.sh("ip link set eth0 name other");
        request
    }),
    ("without its alias", |_, container, request| {
        container.must(&["ip", "link", "set", "eth0", "alias", ""]);
        request
    }),
    ("with an alias that leads astray", |_, container, request| {
        container.sh("ip link set eth0 alias far");
        request
    }),
    ("a configuration that names another device", |host, _, request| {
        let plugin = host.list["plugins"][0].as_object_mut().expect("an object");
        plugin.remove("device");
        plugin.insert("pciBusID".to_owned(), json!("0000:99:00.0"));
        request
    }),
];

/// Requires that DEL, twice, gives everything back after something was done to the machine.
fn moves_back(before_del: impl Fn(&mut ListHost, &Container, Attachment) -> Attachment) {
    let mut host = host(addressed());
    let before = host.state();
    let (container, attachment) = host.add("id1");
    let request = before_del(&mut host, &container, attachment);
    for _ in 0..2 {
        host.del(&request);
        host.is_as_before(&before, &[]);
    }
    assert_eq!(Network::observe(&container).links.len(), 1, "lo alone");
}

/// The reference leaves it down, without its alias and its bridge, and fails the second DEL.
#[test]
fn del_gives_the_interface_back_as_it_was_and_comes_twice() {
    let living = Loss::ALL.into_iter().filter(|loss| !loss.ends_the_namespace() && *loss != Loss::Interface);
    for_each(living.map(|loss| (loss, loss)), |loss| {
        moves_back(|_, container, request| loss.strike(container, request))
    });
    for_each(OF_THE_INTERFACE, |before_del| moves_back(before_del));
}

/// A virtual interface is destroyed by the kernel; its lease must not stay.
#[test]
fn an_interface_that_went_with_its_namespace_is_no_failure() {
    let gone = Loss::ALL.into_iter().filter(|loss| loss.ends_the_namespace() || *loss == Loss::Interface);
    for_each(gone.map(|loss| (loss, loss)), |loss| {
        let host = host(addressed());
        let (container, attachment) = host.add("id1");
        let request = loss.strike(&container, attachment);
        for _ in 0..2 {
            host.del(&request);
        }
        assert!(!host.state().lines().iter().any(|line| line.contains("/run/cni/net1/10.1.2.2")), "the lease is gone");
    });
}

/// The reference loses the addresses of the interface then.
#[test]
fn a_name_that_is_taken_on_the_host_leaves_the_interface_to_a_later_del() {
    let host = host(addressed());
    let before = host.state();
    let (container, attachment) = host.add("id1");
    host.sandbox.sh("ip link add ens1 type bridge");
    let inside = Network::observe(&container);
    let error = host.runtime().del(&attachment).expect_error("host-device", 103, "file exists");
    assert!(error.details.contains("of kind bridge"), "{}", error.details);
    let after = Network::observe(&container);
    assert_eq!((after.link("eth0"), after.addresses_of("eth0")), (inside.link("eth0"), inside.addresses_of("eth0")));
    // Another container would get the addresses otherwise.
    assert_eq!(leases::of_network("/run/cni", "net1").len(), 2);
    host.sandbox.sh("ip link del ens1");
    host.del(&attachment);
    host.is_as_before(&before, &[]);
}

/// As the reference leaves it: no record, and the name in the alias.
#[test]
fn an_interface_that_the_reference_has_moved_goes_back_under_its_name() {
    let host = host(by_name());
    let container = host.sandbox.container("id1");
    host.sandbox.sh("ip link set ens1 alias ens1");
    host.sandbox.sh(&format!("ip link set ens1 netns {} name eth0", container.name()));
    let attachment = Attachment::new("id1", &container);
    for _ in 0..2 {
        host.del(&attachment);
        let network = Network::observe(host.sandbox.host());
        let link = network.link("ens1").expect("back");
        assert_eq!((link.up, link.alias.as_deref()), (false, None));
    }
}

/// Another plugin's, which happens to have the name.
#[test]
fn an_interface_that_is_not_ours_stays() {
    let host = host(by_name());
    let container = host.sandbox.container("id1");
    container.sh("ip link add eth0 type bridge");
    host.del(&Attachment::new("id1", &container));
    container.sh("ip link show eth0 type bridge");
}

/// The path of a process whose number another container has by now.
#[test]
fn the_interface_of_another_container_stays() {
    let host = host(by_name());
    let (container, attachment) = host.add("id1");
    host.del(&Attachment::new("late", &container));
    assert!(has(&container, "eth0"));
    host.check(&attachment);
}

#[test]
fn del_restores_what_a_killed_add_has_moved() {
    let host = host(addressed());
    let before = host.state();
    let container = host.sandbox.container("id1");
    let attachment = Attachment::new("id1", &container);
    for time in [1, 2, 4, 8, 20] {
        let call = host.runtime().invocation(Verb::Add, "host-device", &attachment, None);
        call.killed_after(Duration::from_millis(time)).run();
        host.del(&attachment);
        host.is_as_before(&before, &[]);
    }
}

#[test]
fn gc_releases_what_no_valid_attachment_has() {
    let mut list = addressed();
    list["cniVersion"] = json!("1.1.0");
    let host = host(list);
    let before = host.state();
    let (_container, attachment) = host.add("id1");
    host.runtime().gc(&[&attachment]).expect_success();
    host.check(&attachment);
    host.runtime().gc(&[]).expect_success();
    host.is_as_before(&before, &[]);
}

/// The runtime has lost the namespace, and calls ADD with a new one, for another device. The reference forgets the first.
#[test]
fn an_add_in_a_new_namespace_takes_no_second_interface_while_the_first_is_away() {
    let mut host = host(by_name());
    let before = host.state();
    let (_container, attachment) = host.add("id1");
    let new = host.sandbox.container("new");
    host.list["plugins"][0]["device"] = json!("far");
    let words = format!("ens1 is still in {}, where an earlier ADD of this container has moved it", attachment.netns);
    let mut again = attachment.clone().netns(new.path());
    host.runtime().add(&mut again).expect_error("host-device", 11, &words);
    assert!(has(host.sandbox.host(), "far"));
    host.del(&attachment);
    host.is_as_before(&before, &[]);
}
