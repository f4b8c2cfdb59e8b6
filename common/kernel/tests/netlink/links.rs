//! Links: made, found, changed, and told.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use cni_core::error::{Code, Failure};
use cni_kernel::netlink::{Cause, netns_cookie};
use cni_model::plan::Dad;
use nix::sched::{CloneFlags, setns};

use crate::netlink::{Namespace, cidr, veth};

#[test]
fn the_other_end_of_a_veth_is_asked_for_its_addresses_for_as_long_as_its_namespace_lives() {
    let mut host = Namespace::enter();
    let mut container = Namespace::enter();
    container.socket.create_link(&veth("eth0", "veth0"), Some(host.netns.as_fd())).expect("a veth");
    let inner = container.link("eth0");
    for address in ["10.1.2.3/24", "fd00::3/64"] {
        container.socket.add_address(inner.index, cidr(address), Dad::Skip).expect("an address");
    }
    // The host has a link of the same index, with an address.
    host.socket.add_address(1, cidr("10.9.9.9/24"), Dad::Skip).expect("an address");
    let outer = host.link("veth0");
    assert!(outer.peer_netns.is_some());
    let found = host.socket.peer_addresses(&outer).expect("an answer").expect("the namespace lives");
    let found: Vec<String> = found.iter().map(|address| address.cidr.to_string()).collect();
    assert_eq!(found, ["10.1.2.3/24", "fd00::3/64"]);
    // The kernel turns IPv6 off on a link with an MTU below 1280.
    container.socket.set_mtu(inner.index, 1000).expect("another MTU");
    let found = host.socket.peer_addresses(&outer).expect("an answer").expect("the namespace lives");
    assert_eq!(found.len(), 1, "{found:?}");

    setns(&*host.netns, CloneFlags::CLONE_NEWNET).expect("out of the container");
    drop(container);
    // The last user is a netlink socket, which the kernel ends a moment after it was closed.
    let deadline = Instant::now() + Duration::from_secs(5);
    while host.socket.peer_addresses(&outer).expect("an answer").is_some() {
        assert!(Instant::now() < deadline, "the namespace has no user any more");
        std::thread::sleep(Duration::from_millis(1));
    }

    let here = host.veth("a", "b");
    assert_eq!(host.socket.peer_addresses(&here).expect("an answer"), None, "both ends are in the host");
}

#[test]
fn a_full_bridge_is_named_as_such() {
    let mut host = Namespace::enter();
    let bridge = host.bridge("br0").index;
    let mut join = |number: u16| {
        host.socket.create_link(&veth(&format!("a{number}"), &format!("b{number}")), None).expect("a veth");
        ["a", "b"].map(|end| {
            let port = host.link(&format!("{end}{number}")).index;
            host.socket.set_master(port, bridge)
        })
    };
    (0..511).flat_map(&mut join).for_each(|joined| joined.expect("a port"));
    let [last, refused] = join(511);
    last.expect("port 1023");
    let error = refused.expect_err("port 1024");
    assert_eq!((error.errno(), error.cause(), error.code()), (Some(libc::EXFULL), &Cause::BridgeFull, Code::TryAgain));
}

#[test]
fn a_socket_stays_in_the_namespace_it_was_opened_in() {
    let mut first = Namespace::enter();
    let first_cookie = netns_cookie().expect("an answer");
    let mut second = Namespace::enter();
    first.bridge("br0");
    assert_eq!(second.socket.link("br0").expect("an answer"), None);
    assert!(first_cookie.is_some(), "the kernel has cookies since 5.14");
    assert_ne!(netns_cookie().expect("an answer"), first_cookie);
    setns(&*first.netns, CloneFlags::CLONE_NEWNET).expect("back");
    assert_eq!(netns_cookie().expect("an answer"), first_cookie);
}
