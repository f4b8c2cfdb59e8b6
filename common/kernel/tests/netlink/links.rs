//! Links: made, found, changed, and told.

use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cni_core::error::{Code, Failure};
use cni_kernel::netlink::netns_cookie;
use cni_model::link::OperState;
use cni_model::plan::{Dad, NewLink};
use nix::sched::{CloneFlags, setns};

use crate::netlink::{Namespace, bridge, cidr, errno, mac, name, veth};

#[test]
fn veths_are_listed_with_their_aliases_and_nothing_else_is() {
    let mut host = Namespace::enter();
    host.bridge("br0");
    let veth = host.veth("veth0", "veth1");
    host.socket.set_alias(veth.index, "cni:net:id:eth0").expect("an alias");
    let mut listed: Vec<_> =
        host.socket.links_of_kind("veth").expect("an answer").into_iter().map(|link| (link.name, link.alias)).collect();
    listed.sort();
    let alias = Some("cni:net:id:eth0".to_owned());
    assert_eq!(listed, [("veth0".to_owned(), alias), ("veth1".to_owned(), None)]);
}

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
fn a_namespace_has_a_number_for_another_that_holds_the_other_end_of_a_veth() {
    let mut host = Namespace::enter();
    let mut stranger = Namespace::enter();
    let mut container = Namespace::enter();
    assert_eq!(container.socket.netns_id(host.netns.as_fd()).expect("an answer"), None);
    container.socket.create_link(&veth("eth0", "veth0"), Some(host.netns.as_fd())).expect("a veth");
    let inner = container.link("eth0");
    assert!(inner.peer_netns.is_some());
    assert_eq!(container.socket.netns_id(host.netns.as_fd()).expect("an answer"), inner.peer_netns);
    container.socket.create_link(&veth("eth1", "veth0"), Some(stranger.netns.as_fd())).expect("a veth");
    let elsewhere = container.link("eth1");
    assert_eq!(container.socket.netns_id(stranger.netns.as_fd()).expect("an answer"), elsewhere.peer_netns);
    assert_ne!(elsewhere.peer_netns, inner.peer_netns);
    assert!(host.link("veth0").peer_netns.is_some() && stranger.link("veth0").peer_netns.is_some());
}

#[test]
fn links_are_found_by_name_and_by_index() {
    let mut host = Namespace::enter();
    let lo = host.link("lo");
    assert_eq!((lo.index, lo.mtu, lo.up, lo.kind.clone(), lo.mac.clone()), (1, 65536, true, None, None));
    assert_eq!(host.socket.link_by_index(1).expect("an answer"), Some(lo));
    assert_eq!(host.socket.link("absent0").expect("an answer"), None);
    assert_eq!(host.socket.link_by_index(4711).expect("an answer"), None);
    let error = host.socket.link("a-name-that-is-too-long").expect_err("refused");
    assert_eq!(error.to_string(), "failed to look up link a-name-that-is-too-long");
    assert_eq!(error.cause().to_string(), "numerical result out of range");
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

#[test]
fn a_bridge_has_the_properties_asked_for() {
    let mut host = Namespace::enter();
    let bridge = NewLink { mtu: Some(1400), ..bridge("br0", 9) };
    host.socket.create_link(&bridge, None).expect("a bridge");
    let link = host.link("br0");
    assert_eq!((link.kind.as_deref(), link.mtu, link.mac, link.up), (Some("bridge"), 1400, Some(mac(9)), false));
    assert_eq!(link.vlan_filtering, Some(false));

    let error = host.socket.create_link(&bridge, None).expect_err("exists");
    assert_eq!((error.errno(), error.code()), (Some(libc::EEXIST), Code::Kernel));
    assert_eq!(error.to_string(), "failed to create bridge br0");
    assert_eq!(error.cause().to_string(), "file exists");
}

#[test]
fn a_veth_is_born_in_both_namespaces() {
    let mut host = Namespace::enter();
    let mut container = Namespace::enter();
    let netns = Rc::clone(&host.netns);
    let veth = NewLink { mtu: Some(1450), ..veth("eth0", "veth0") };
    container.socket.create_link(&veth, Some(netns.as_fd())).expect("a veth");
    let (inner, outer) = (container.link("eth0"), host.link("veth0"));
    assert_eq!(
        (inner.kind.as_deref(), inner.mtu, inner.mac, inner.peer),
        (Some("veth"), 1450, Some(mac(4)), Some(outer.index))
    );
    assert_eq!(
        (outer.kind.as_deref(), outer.mtu, outer.mac, outer.peer),
        (Some("veth"), 1450, Some(mac(5)), Some(inner.index))
    );
    let mut again = |veth: &NewLink| errno(container.socket.create_link(veth, Some(netns.as_fd())));
    assert_eq!(again(&veth), Some(libc::EEXIST), "both names are taken");
    assert_eq!(again(&NewLink { name: name("eth1"), ..veth }), Some(libc::EEXIST), "the name of the peer is taken");

    container.socket.delete_link(inner.index).expect("deleted");
    assert_eq!(host.socket.link("veth0").expect("an answer"), None);
    assert_eq!(errno(container.socket.delete_link(inner.index)), Some(libc::ENODEV));
}

#[test]
fn a_veth_may_be_made_from_the_other_side() {
    let mut host = Namespace::enter();
    let mut container = Namespace::enter();
    let netns = Rc::clone(&container.netns);
    host.socket.create_link(&veth("veth0", "eth0"), Some(netns.as_fd())).expect("a veth");
    assert_eq!((host.link("veth0").mac, container.link("eth0").mac), (Some(mac(4)), Some(mac(5))));
    let multicast = "01:00:5e:00:00:01".parse().expect("a MAC");
    let long = "02:00:00:00:00:00:00:01".parse().expect("a MAC");
    for (mac, number) in [(multicast, libc::EADDRNOTAVAIL), (long, libc::EINVAL)] {
        let refused = NewLink { mac: Some(mac), ..veth("veth1", "eth1") };
        assert_eq!(errno(host.socket.create_link(&refused, Some(netns.as_fd()))), Some(number));
    }
}

#[test]
fn the_properties_of_a_link_can_be_changed() {
    let mut host = Namespace::enter();
    let index = host.veth("eth0", "eth1").index;
    host.socket.set_promisc(index, true).expect("promiscuous");
    host.socket.set_all_multicast(index, true).expect("all multicast");
    host.socket.set_mtu(index, 1300).expect("an MTU");
    host.socket.set_tx_queue_length(index, 17).expect("a length");
    host.socket.set_mac(index, &mac(7)).expect("a MAC");
    let alias = "x".repeat(255);
    host.socket.set_alias(index, &alias).expect("an alias");
    let link = host.link("eth0");
    assert_eq!((link.promiscuity, link.mac, link.alias, link.up), (1, Some(mac(7)), Some(alias), true));
    assert_eq!(link.oper_state, OperState::Up);
    assert_eq!((link.promisc, link.all_multicast, link.mtu, link.tx_queue_length), (true, true, 1300, 17));

    host.socket.set_link_down(index).expect("down");
    host.socket.set_alias(index, "").expect("no alias");
    host.socket.set_all_multicast(index, false).expect("not all multicast");
    let link = host.link("eth0");
    assert_eq!((link.promiscuity, link.alias, link.up, link.oper_state), (1, None, false, OperState::Down));
    assert_eq!((link.promisc, link.all_multicast), (true, false));
    assert_eq!(host.link("eth1").oper_state, OperState::LowerLayerDown);

    assert_eq!(errno(host.socket.set_link_up(4711)), Some(libc::ENODEV));
    assert_eq!(errno(host.socket.delete_link(1)), Some(libc::EOPNOTSUPP), "lo");
}
