//! Locks and marks of an attachment, and what repair learns from them, on a machine in memory.

use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::exclusion::{begin_add, begin_del, begin_gc, begin_repair, end_del, is_being_deleted};
use cni_plugin::host::Host as _;
use cni_plugin::lock::LockName;
use cni_plugin::records::Records as _;
use cni_plugin::share::Share;
use cni_testkit::{FakeContainer, FakeHost};

fn at(container: &str, ifname: &str) -> Attachment {
    Attachment {
        network: NetworkName::parse("net").expect("a network"),
        container: ContainerId::parse(container).expect("a container"),
        ifname: IfName::parse(ifname).expect("a name"),
    }
}

const NETNS: &str = "/run/netns/c1";

/// A host with a container that has an interface.
fn host() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    host.add_link(Ns::Container, Link { name: "eth0".to_owned(), ..Link::default() });
    host
}

fn is_marked(at: &Attachment, host: &mut FakeHost) -> bool {
    is_being_deleted(at, host).expect("a record can be read")
}

#[test]
fn the_mark_comes_with_the_first_del_and_goes_with_the_interface() {
    let (mut host, ours) = (host(), at("c1", "eth0"));
    for share in [Share::Nothing, Share::Interface] {
        begin_del(share, &ours, Some(NETNS), &mut host);
        assert!(!is_marked(&ours, &mut host), "{share:?} alone needs no mark");
    }
    begin_del(Share::Rules, &ours, Some(NETNS), &mut host);
    end_del(Share::Rules, &ours, &mut host);
    assert!(is_marked(&ours, &mut host));
    for other in [at("c1", "eth1"), at("c2", "eth0")] {
        assert!(!is_marked(&other, &mut host), "{other:?}");
    }
    begin_del(Share::Nothing, &ours, Some(NETNS), &mut host);
    end_del(Share::Nothing, &ours, &mut host);
    assert!(is_marked(&ours, &mut host));
    end_del(Share::Interface, &ours, &mut host);
    assert!(!is_marked(&ours, &mut host));
    assert!(host.records.is_empty());
}

/// Plugins of others have deleted the attachment and added it again, and know nothing of the mark.
#[test]
fn a_mark_of_another_interface_says_nothing() {
    let (mut host, ours) = (host(), at("c1", "eth0"));
    begin_del(Share::Rules, &ours, Some(NETNS), &mut host);
    host.change_link(Ns::Container, "eth0", |link| link.name = "renamed".to_owned());
    assert!(is_marked(&ours, &mut host), "the same interface under another name");
    host.change_link(Ns::Container, "renamed", |link| link.index = 99);
    assert!(!is_marked(&ours, &mut host));
}

#[test]
fn add_takes_the_mark_away() {
    for share in [Share::Interface, Share::Rules] {
        let (mut host, ours) = (host(), at("c1", "eth0"));
        begin_del(Share::Rules, &ours, Some(NETNS), &mut host);
        begin_add(Share::Nothing, &ours, &mut host);
        assert!(is_marked(&ours, &mut host));
        begin_add(share, &ours, &mut host);
        assert!(!is_marked(&ours, &mut host));
    }
}

#[test]
fn everything_holds_the_lock_of_what_it_works_on() {
    let (mut host, ours) = (host(), at("c1", "eth0"));
    begin_add(Share::Rules, &ours, &mut host);
    begin_del(Share::Interface, &ours, Some(NETNS), &mut host);
    begin_gc(&ours.network, &mut host).expect("free");
    begin_repair(&ours, &mut host).expect("free");
    begin_add(Share::Nothing, &ours, &mut host);
    let (attachment, network) = (LockName::attachment(&ours), LockName::network(&ours.network));
    let expected = [&attachment, &attachment, &network, &LockName::several(), &network, &attachment];
    assert_eq!(host.locks().iter().collect::<Vec<_>>(), expected);
}

/// They share chains of the packet filter.
#[test]
fn the_interfaces_of_a_container_in_a_network_have_one_lock() {
    let lock = |container, ifname| LockName::attachment(&at(container, ifname)).number();
    assert_eq!(lock("c1", "eth0"), lock("c1", "eth1"));
    assert_ne!(lock("c1", "eth0"), lock("c2", "eth0"));
    assert_ne!(lock("c1", "eth0"), LockName::network(&at("c1", "eth0").network).number());
}

#[test]
fn repair_and_gc_fail_without_their_locks_and_del_goes_on_with_its_mark() {
    let (mut host, ours) = (host(), at("c1", "eth0"));
    host.hold_locks();
    begin_repair(&ours, &mut host).expect_err("held");
    begin_gc(&ours.network, &mut host).expect_err("held");
    begin_add(Share::Rules, &ours, &mut host);
    begin_del(Share::Rules, &ours, Some(NETNS), &mut host);
    assert!(is_marked(&ours, &mut host));
}

#[test]
fn a_mark_that_cannot_be_written_does_not_stop_del() {
    let (mut host, ours) = (host(), at("c1", "eth0"));
    host.fail_at(1);
    begin_del(Share::Rules, &ours, Some(NETNS), &mut host);
    assert!(!is_marked(&ours, &mut host) && !host.is_to_fail());
    assert_eq!(host.locks(), [LockName::attachment(&ours)]);
}

#[test]
fn an_attachment_without_its_interface_is_not_marked() {
    let (mut host, ours) = (host(), at("c1", "eth0"));
    begin_del(Share::Rules, &ours, None, &mut host);
    begin_del(Share::Rules, &ours, Some("/run/netns/other"), &mut host);
    host.set_container("/run/netns/empty", FakeContainer::Present(None));
    begin_del(Share::Rules, &ours, Some("/run/netns/empty"), &mut host);
    host.set_container("/run/netns/empty", FakeContainer::Gone);
    begin_del(Share::Rules, &ours, Some("/run/netns/empty"), &mut host);
    assert!(!is_marked(&ours, &mut host));
    host.set_container("/run/netns/closed", FakeContainer::Closed);
    begin_del(Share::Rules, &ours, Some("/run/netns/closed"), &mut host);
    assert!(is_marked(&ours, &mut host), "it may be there");
}

/// The interface was another plugin's, and nobody of ours saw it go.
#[test]
fn the_next_del_takes_away_the_marks_of_interfaces_that_are_gone() {
    let others = ["/run/netns/gone", "/run/netns/bare", "/run/netns/alive"];
    let (mut host, ours) = (host(), at("c1", "eth0"));
    for (path, id) in others.into_iter().zip(["c2", "c3", "c4"]) {
        host.set_container(path, FakeContainer::Present(Some(format!("boot:{id}"))));
        host.enter(path).expect("entered");
        host.add_link(Ns::Container, Link { name: "eth0".to_owned(), ..Link::default() });
        begin_del(Share::Rules, &at(id, "eth0"), Some(path), &mut host);
        host.enter(path).expect("entered");
        assert!(is_marked(&at(id, "eth0"), &mut host));
    }
    let marks = |host: &FakeHost| host.records.lines().iter().filter(|line| line.starts_with("deleting/")).count();
    assert_eq!(marks(&host), 3);
    host.set_container(others[0], FakeContainer::Gone);
    host.set_container(others[1], FakeContainer::Present(Some("boot:c9".to_owned())));
    begin_del(Share::Rules, &ours, Some(NETNS), &mut host);
    host.enter(NETNS).expect("it lives");
    assert!(is_marked(&ours, &mut host));
    host.enter(others[2]).expect("it lives");
    assert!(is_marked(&at("c4", "eth0"), &mut host));
    assert_eq!(marks(&host), 2, "of c1 and c4");
}

/// By the time since boot, which nobody sets. A mark that makes no sense goes as well.
#[test]
fn the_next_del_takes_away_the_mark_of_a_del_that_was_never_finished() {
    for (made, is_kept) in [("86400", true), ("83000", true), ("99999", true), ("82000", false), ("late", false)] {
        let (mut host, ours, other) = (host(), at("c1", "eth0"), at("c2", "eth0"));
        begin_del(Share::Rules, &other, Some(NETNS), &mut host);
        let key = host.records.keys().pop().expect("a mark");
        let text = host.records.read(&key).expect("read").expect("there");
        let (_, interface) = text.split_once('\n').expect("a time and an interface");
        host.records.write(&key, &format!("{made}\n{interface}"));
        begin_del(Share::Rules, &ours, Some(NETNS), &mut host);
        assert_eq!((is_marked(&ours, &mut host), is_marked(&other, &mut host)), (true, is_kept), "{made}");
    }
}
