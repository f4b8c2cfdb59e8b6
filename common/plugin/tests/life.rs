//! Whether a container lives: what its number, its path and a process in it tell.

use std::time::Duration;

use cni_core::names::{Attachment, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_model::link::Link;
use cni_model::netns::NamespaceNumber;
use cni_plugin::attachment_record::{AttachmentRecord, is_entered_by_another, remove_abandoned, remove_invalid};
use cni_plugin::host::Host as _;
use cni_plugin::namespace::{self, Life, OnHost as _, RecordedLink, RecordedNamespace};

use crate::stub::{NETNS, StubHost, StubNamespace, at};

/// What is recorded of a container's namespace, after which something happens to it.
fn recorded(change: fn(&mut StubHost)) -> (StubHost, RecordedNamespace) {
    let mut host = StubHost::new();
    host.enter(NETNS).expect("entered");
    let namespace = namespace::of_entered(NETNS, &mut host).expect("asked").expect("identified");
    change(&mut host);
    (host, namespace)
}

fn unnamed(host: &mut StubHost) {
    host.namespaces[0].path.clear();
}

fn closed(host: &mut StubHost) {
    host.namespaces[0].is_closed = true;
}

fn ended(host: &mut StubHost) {
    host.namespaces[0].has_ended = true;
}

/// Its path leads to the next one.
fn followed(host: &mut StubHost) {
    ended(host);
    host.add(NETNS);
}

#[test]
fn a_number_of_its_own_tells_all_and_without_it_only_the_path_tells_that_it_lives() {
    for (change, life, by_path) in [
        ((|_| {}) as fn(&mut StubHost), Life::Alive, true),
        (unnamed, Life::Alive, false),
        (closed, Life::Alive, false),
        (ended, Life::Dead, false),
        (followed, Life::Dead, false),
    ] {
        let (mut host, namespace) = recorded(change);
        assert_eq!(namespace.life(None, &mut host), life);
        let unnumbered = RecordedNamespace { number: None, ..namespace }.life(None, &mut host);
        assert_eq!(matches!(unnumbered, Life::Alive), by_path, "{unnumbered:?}");
        assert!(by_path || matches!(unnumbered, Life::Unknown(_)));
    }
}

/// Otherwise the plugin would go on in the namespace of another ADD, and undo its steps there.
#[test]
fn a_look_at_another_namespace_ends_in_the_one_before_also_if_it_fails() {
    for (change, is_asked) in [((|_| {}) as fn(&mut StubHost), true), (closed, false), (followed, false)] {
        let (mut host, namespace) = recorded(change);
        let namespace = RecordedNamespace { number: None, ..namespace };
        host.add("/run/netns/now");
        host.enter("/run/netns/now").expect("entered");
        let now = host.entered;
        namespace.life(None, &mut host);
        assert_eq!((host.entered, host.kept.len()), (now, 0));
        // The listing fails.
        assert_eq!(namespace.addresses(&mut host).is_err_and(|error| error.to_string() == "unreadable"), is_asked);
        assert_eq!((host.entered, host.kept.len()), (now, 0));
    }
}

#[test]
fn a_number_that_others_may_have_got_is_believed_for_a_link_that_was_there() {
    let (mut host, namespace) = recorded(|host| {
        unnamed(host);
        host.namespaces[0].links[0].mac = "0a:58:0a:01:02:03".parse().ok();
    });
    let number = namespace.number.map(|number| NamespaceNumber { is_unique: false, ..number });
    let namespace = RecordedNamespace { number, ..namespace };
    let own = RecordedLink::of(&host.namespaces[0].links[0]);
    let other = RecordedLink { mac: "0a:58:0a:01:02:04".to_owned(), ..own.clone() };
    assert_eq!(namespace.life(Some(&own), &mut host), Life::Alive);
    for link in [Some(&other), None] {
        assert!(matches!(namespace.life(link, &mut host), Life::Unknown(_)));
    }
    ended(&mut host);
    assert_eq!(namespace.life(Some(&own), &mut host), Life::Dead);
}

/// At a DEL that is repeated the attachment has no record any more: then those of other containers tell.
#[test]
fn a_namespace_is_anothers_by_the_own_record_and_without_it_by_that_of_another_container() {
    for (container, ifname, path, is_anothers) in [
        ("c1", "eth0", NETNS, false),
        ("c1", "eth0", "/run/netns/there", true),
        ("c1", "eth1", NETNS, false),
        ("c2", "eth0", NETNS, true),
        ("c2", "eth0", "/run/netns/there", false),
    ] {
        let mut host = StubHost::new();
        host.add("/run/netns/there");
        host.enter(path).expect("entered");
        let namespace = namespace::of_entered(path, &mut host).expect("asked").expect("identified");
        host.apply(&record(at(container, ifname), "bridge", &namespace, None).write()).expect("written");
        host.enter(NETNS).expect("entered");
        let found = is_entered_by_another(&at("c1", "eth0"), &mut host).expect("asked");
        assert_eq!(found, is_anothers, "{container} {ifname} {path}");
    }
}

fn record(at: Attachment, maker: &str, namespace: &RecordedNamespace, link: Option<&Link>) -> AttachmentRecord {
    let (namespace, link) = (namespace.clone(), link.map(RecordedLink::of));
    AttachmentRecord { at, maker: maker.to_owned(), namespace, link, is_again: false, written: Duration::ZERO }
}

#[test]
fn gc_removes_the_records_of_what_is_not_valid_in_its_network() {
    let (mut host, namespace) = recorded(|_| {});
    let elsewhere = Attachment { network: NetworkName::parse("other").expect("a network"), ..at("c2", "eth0") };
    let all = [
        (at("c1", "eth0"), "bridge"),
        (at("c2", "eth0"), "bridge"),
        (elsewhere, "bridge"),
        (at("c3", "eth0"), "macvlan"),
    ];
    for (at, maker) in all.clone() {
        host.apply(&record(at, maker, &namespace, None).write()).expect("written");
    }
    let json = br#"{"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}"#;
    let valid = ValidAttachments::parse(&cni_core::json::Json::parse(json).expect("JSON")).expect("a list");
    remove_invalid("bridge", &all[0].0.network, &valid.expect("given"), &mut host).expect("removed");
    let left: Vec<_> = AttachmentRecord::all(&mut host).expect("listed").into_iter().map(|record| record.at).collect();
    assert!(left.len() == 3 && !left.contains(&all[1].0), "{left:?}");
}

/// A chained plugin has recorded an interface, or one that lends interfaces of the host, or its ADD is repeated.
#[test]
fn an_interface_of_a_former_add_goes_only_if_no_process_can_use_it_and_its_maker_makes_it_again() {
    let occupied = |namespace: &mut StubNamespace| namespace.is_occupied = true;
    let other_kind = |namespace: &mut StubNamespace| namespace.links[0].kind = None;
    let as_is: fn(&mut StubNamespace) = |_| {};
    for (maker, now_by, change, is_repeated, is_removed) in [
        ("macvlan", "macvlan", as_is, false, true),
        ("macvlan", "macvlan", occupied, false, false),
        ("macvlan", "macvlan", other_kind, false, false),
        ("macvlan", "macvlan", as_is, true, false),
        ("tuning", "macvlan", as_is, false, false),
        ("host-device", "host-device", as_is, false, false),
    ] {
        let (mut host, namespace) = recorded(unnamed);
        let link = host.namespaces[0].links[0].clone();
        let earlier = record(at("c1", "eth0"), maker, &namespace, Some(&link));
        change(&mut host.namespaces[0]);
        let now = RecordedNamespace { identity: "boot:9".to_owned(), ..namespace };
        let now = if is_repeated { &earlier.namespace } else { &now };
        let removed = remove_abandoned(&earlier, now_by, now, &mut host).expect("asked");
        assert_eq!((removed, host.applied.len()), (is_removed, usize::from(is_removed)), "{maker} {now_by}");
    }
}
