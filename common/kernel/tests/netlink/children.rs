//! Links on a master, and names beside the own.

use std::os::fd::AsFd;
use std::rc::Rc;

use cni_model::plan::{ChildKind, LinkKind, MacvlanMode, MasterLink, NewLink, Ns};

use crate::netlink::{Namespace, bridge, errno, link, mac, name};

/// A macvlan on the link of an index.
fn macvlan(new: &str, master: u32, mode: MacvlanMode) -> NewLink {
    let kind = ChildKind::Macvlan { mode, broadcast_queue: Some(77) };
    let master = MasterLink { ns: Ns::Host, index: master, name: "br0".to_owned() };
    NewLink { mac: Some(mac(9)), mtu: Some(1400), ..link(new, LinkKind::Child { master, kind }) }
}

#[test]
fn a_child_of_a_master_is_made_in_another_namespace_and_told_with_what_it_is() {
    let mut container = Namespace::enter();
    let mut host = Namespace::enter();
    let master = host.bridge("br0").index;
    host.socket.create_link(&macvlan("eth0", master, MacvlanMode::Vepa), Some(container.netns.as_fd())).expect("made");
    let made = container.link("eth0");
    let child = ChildKind::Macvlan { mode: MacvlanMode::Vepa, broadcast_queue: Some(77) };
    assert_eq!((made.kind.as_deref(), made.child, made.peer), (Some("macvlan"), Some(child), Some(master)));
    assert_eq!((made.mac, made.mtu, made.peer_netns.is_some()), (Some(mac(9)), 1400, true));
    assert!(host.socket.link("eth0").expect("an answer").is_none(), "it is in the container alone");
    container.socket.set_name(made.index, &name("net1")).expect("renamed");
    assert_eq!(container.link("net1").index, made.index);
    let taken = container.socket.set_name(made.index, &name("lo"));
    assert_eq!(errno(taken), Some(libc::EEXIST));
}

#[test]
fn a_child_in_a_namespace_that_has_a_number_is_found_from_the_masters() {
    let mut container = Namespace::enter();
    let mut host = Namespace::enter();
    let (master, other) = (host.bridge("br0").index, {
        host.socket.create_link(&bridge("br1", 2), None).expect("a bridge");
        host.link("br1").index
    });
    let own = Rc::clone(&host.netns);
    let found = |host: &mut Namespace, master| {
        let found = host.socket.child_elsewhere(master, "macvlan", own.as_fd()).expect("an answer");
        found.map(|link| link.name)
    };
    host.socket
        .create_link(&macvlan("eth0", master, MacvlanMode::Bridge), Some(container.netns.as_fd()))
        .expect("made");
    assert_eq!(found(&mut host, master), None, "the namespace has no number yet");
    for _ in 0..2 {
        host.socket.number_netns(container.netns.as_fd()).expect("a number");
    }
    assert_eq!(found(&mut host, master).as_deref(), Some("eth0"));
    assert_eq!(found(&mut host, other), None, "it is of another master");
    let index = container.link("eth0").index;
    container.socket.delete_link(index).expect("deleted");
    assert_eq!(found(&mut host, master), None);
}

#[test]
fn a_link_is_found_by_its_alternative_names() {
    let mut host = Namespace::enter();
    let index = host.bridge("br0").index;
    let long = "the-interface-that-leads-to-the-network";
    for alternative in [long, "short"] {
        host.run(&format!("ip link property add dev br0 altname {alternative}"));
        assert_eq!(host.socket.link_called(alternative).expect("an answer").expect("a link").index, index);
    }
    assert_eq!(host.socket.link_called("br0").expect("an answer").expect("a link").index, index);
    for absent in ["none", "another-name-that-no-link-is-called-by", "", "br0\0", &"x".repeat(200)] {
        assert_eq!(host.socket.link_called(absent).expect("an answer"), None, "{absent:?}");
    }
}
