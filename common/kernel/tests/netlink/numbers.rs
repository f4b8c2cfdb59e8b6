//! Namespaces by their numbers: what the kernel says of one, for as long as it lives and afterwards.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use cni_kernel::netlink::Socket;
use cni_model::netns::NumberedLink;
use cni_model::plan::Dad;
use nix::sched::{CloneFlags, setns};

use crate::netlink::{Namespace, cidr, veth};

const LO: u32 = 1;
const NUMBER: i32 = 0x4000_0007;

/// The namespace of a number ends a moment after its last user.
fn await_end(host: &mut Socket, number: i32) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while host.numbered_link(number, LO).expect("an answer") != NumberedLink::NoNamespace {
        assert!(Instant::now() < deadline, "the namespace has no user any more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_namespace_keeps_the_first_number_it_gets_and_loses_it_at_its_end() {
    let mut host = Namespace::enter();
    let mut container = Namespace::enter();
    for wanted in [NUMBER, NUMBER + 1] {
        assert_eq!(host.socket.ensure_number(container.netns.as_fd(), wanted).expect("a number"), Some(NUMBER));
    }
    container.socket.create_link(&veth("eth0", "peer0"), None).expect("a veth");
    let inside = container.link("eth0");
    let found = host.socket.numbered_link(NUMBER, inside.index).expect("an answer");
    assert_eq!(found, NumberedLink::Link(Box::new(inside)));
    assert_eq!(host.socket.numbered_link(NUMBER, 4711).expect("an answer"), NumberedLink::NoLink);
    for address in ["10.1.2.3/24", "fd00::3/64"] {
        container.socket.add_address(LO, cidr(address), Dad::Skip).expect("an address");
    }
    let addresses = host.socket.numbered_addresses(NUMBER).expect("an answer").expect("it lives");
    let mut addresses: Vec<String> = addresses.iter().map(|address| address.cidr.to_string()).collect();
    addresses.sort();
    assert_eq!(addresses, ["10.1.2.3/24", "127.0.0.1/8", "::1/128", "fd00::3/64"]);

    setns(&*host.netns, CloneFlags::CLONE_NEWNET).expect("out of the container");
    drop(container);
    await_end(&mut host.socket, NUMBER);
    assert_eq!(host.socket.numbered_addresses(NUMBER).expect("an answer"), None);
    host.socket.delete_numbered_link(NUMBER, LO).expect("absence is success");
}

#[test]
fn a_number_that_is_taken_gives_way_to_one_of_the_kernel() {
    let mut host = Namespace::enter();
    let (first, second) = (Namespace::enter(), Namespace::enter());
    assert_eq!(host.socket.ensure_number(first.netns.as_fd(), NUMBER).expect("a number"), Some(NUMBER));
    let other = host.socket.ensure_number(second.netns.as_fd(), NUMBER).expect("a number").expect("one");
    assert_ne!(other, NUMBER);
    // The peer of a veth gets a number from the kernel when the veth is made.
    let mut third = Namespace::enter();
    third.socket.create_link(&veth("eth0", "veth0"), Some(host.netns.as_fd())).expect("a veth");
    let given = host.link("veth0").peer_netns.expect("a number");
    assert_eq!(host.socket.ensure_number(third.netns.as_fd(), NUMBER + 1).expect("a number"), Some(given));
}

#[test]
fn a_link_is_deleted_in_a_namespace_that_only_a_number_leads_to() {
    let mut host = Namespace::enter();
    let mut container = Namespace::enter();
    host.socket.ensure_number(container.netns.as_fd(), NUMBER).expect("a number");
    container.socket.create_link(&veth("eth0", "peer0"), None).expect("a veth");
    let inside = container.link("eth0");
    for _ in 0..2 {
        host.socket.delete_numbered_link(NUMBER, inside.index).expect("deleted, or absent");
    }
    assert_eq!(container.socket.link("eth0").expect("an answer"), None);
}
