//! Whether a container lives, on a machine in memory: what its number, its path and a process in it tell.

use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_model::link::Link;
use cni_model::netns::NamespaceNumber;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::{AttachmentRecord, remove_invalid};
use cni_plugin::host::Host as _;
use cni_plugin::namespace::{Life, RecordedLink, RecordedNamespace};
use cni_testkit::{FakeContainer, FakeHost};

const NETNS: &str = "/run/netns/c1";

fn present(identity: &str) -> FakeContainer {
    FakeContainer::Present(Some(identity.to_owned()))
}

/// A host with a container, and what is recorded of its namespace.
fn recorded() -> (FakeHost, RecordedNamespace) {
    let mut host = FakeHost::new().with_container(NETNS, present("boot:1"));
    host.enter(NETNS).expect("entered");
    let namespace = RecordedNamespace::of_entered(NETNS, &mut host).expect("asked").expect("identified");
    (host, namespace)
}

fn at(container: &str) -> Attachment {
    Attachment {
        network: NetworkName::parse("net").expect("a network"),
        container: ContainerId::parse(container).expect("a container"),
        ifname: IfName::parse("eth0").expect("a name"),
    }
}

#[test]
fn a_number_of_its_own_tells_all() {
    for (now, life) in [
        (present("boot:1"), Life::Alive),
        (FakeContainer::Unnamed, Life::Alive),
        (FakeContainer::Closed, Life::Alive),
        (FakeContainer::Gone, Life::Dead),
        (present("boot:2"), Life::Dead),
    ] {
        let (mut host, namespace) = recorded();
        assert!(namespace.number.is_some_and(|number| number.is_unique));
        host.set_container(NETNS, now.clone());
        assert_eq!(namespace.life(None, &mut host), life, "{now:?}");
    }
}

#[test]
fn without_a_number_only_the_path_can_tell_that_it_lives() {
    for (now, is_alive) in [
        (present("boot:1"), true),
        (present("boot:2"), false),
        (FakeContainer::Gone, false),
        (FakeContainer::Unnamed, false),
        (FakeContainer::Closed, false),
    ] {
        let (mut host, namespace) = recorded();
        let namespace = RecordedNamespace { number: None, ..namespace };
        host.set_container(NETNS, now.clone());
        let life = namespace.life(None, &mut host);
        assert_eq!(life == Life::Alive, is_alive, "{now:?}: {life:?}");
        assert!(life != Life::Dead, "{now:?}");
    }
}

#[test]
fn a_number_that_others_may_have_got_is_believed_for_a_link_that_was_there() {
    let (mut host, namespace) = recorded();
    let mac = "0a:58:0a:01:02:03".parse().ok();
    let link = Link { name: "eth0".to_owned(), mac, kind: Some("macvlan".to_owned()), ..Link::default() };
    let index = host.add_link(Ns::Container, link.clone());
    let number = namespace.number.map(|number| NamespaceNumber { is_unique: false, ..number });
    let namespace = RecordedNamespace { number, path: "/run/netns/lost".to_owned(), identity: "boot:9".to_owned() };
    let own = RecordedLink::of(&Link { index, ..link });
    assert_eq!(namespace.life(Some(&own), &mut host), Life::Alive);
    let other = RecordedLink { mac: "0a:58:0a:01:02:04".to_owned(), ..own.clone() };
    assert!(matches!(namespace.life(Some(&other), &mut host), Life::Unknown(_)));
    assert!(matches!(namespace.life(None, &mut host), Life::Unknown(_)));
    host.set_container(NETNS, FakeContainer::Gone);
    assert_eq!(namespace.life(Some(&own), &mut host), Life::Dead);
}

#[test]
fn gc_removes_the_records_of_what_is_not_valid_in_its_network() {
    let (mut host, namespace) = recorded();
    let record = |at: Attachment| AttachmentRecord {
        at,
        maker: "bridge".to_owned(),
        namespace: namespace.clone(),
        link: None,
        is_again: false,
    };
    let elsewhere = Attachment { network: NetworkName::parse("other").expect("a network"), ..at("c2") };
    for at in [at("c1"), at("c2"), elsewhere.clone()] {
        host.apply(&record(at).write()).expect("written");
    }
    let of_another = AttachmentRecord { maker: "macvlan".to_owned(), ..record(at("c3")) };
    host.apply(&of_another.write()).expect("written");
    let json = br#"{"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}"#;
    let valid = ValidAttachments::parse(&cni_core::json::Json::parse(json).expect("JSON")).expect("a list");
    remove_invalid("bridge", &at("c1").network, &valid.expect("given"), &mut host).expect("removed");
    let left = AttachmentRecord::all(&mut host.records).expect("listed").into_iter().map(|record| record.at);
    let mut left: Vec<_> = left.collect();
    left.sort_by_key(|at| (at.network.to_string(), at.container.to_string()));
    assert_eq!(left, [at("c1"), at("c3"), elsewhere]);
}

mod former {
    use super::*;
    use cni_plugin::abandoned;

    /// A host with the record of a former ADD, whose namespace is now in this state, and the namespace of the next ADD.
    fn host(become_: FakeContainer) -> (FakeHost, AttachmentRecord, RecordedNamespace) {
        let (mut host, namespace) = recorded();
        let kind = Some("macvlan".to_owned());
        let link = Link { name: "eth0".to_owned(), kind, ..Link::default() };
        let index = host.add_link(Ns::Container, link.clone());
        let link = Some(RecordedLink::of(&Link { index, ..link }));
        host.set_container(NETNS, become_);
        host.set_container("/run/netns/new", present("boot:9"));
        host.enter("/run/netns/new").expect("entered");
        let now = RecordedNamespace::of_entered("/run/netns/new", &mut host).expect("asked").expect("identified");
        (host, AttachmentRecord { at: at("c1"), maker: "macvlan".to_owned(), namespace, link, is_again: false }, now)
    }

    #[test]
    fn an_interface_goes_only_if_no_process_can_use_it() {
        for (become_, is_left) in
            [(FakeContainer::Unnamed, false), (present("boot:1"), true), (FakeContainer::Closed, true)]
        {
            let (mut host, earlier, now) = host(become_.clone());
            abandoned::remove(&earlier, "macvlan", &now, &mut host).expect("asked");
            assert_eq!(host.state().join("\n").contains("macvlan"), is_left, "{become_:?}");
        }
    }

    #[test]
    fn the_interface_of_a_repeated_add_stays() {
        let (mut host, earlier, _) = host(FakeContainer::Unnamed);
        abandoned::remove(&earlier, "macvlan", &earlier.namespace, &mut host).expect("asked");
        assert!(host.state().join("\n").contains("macvlan"));
    }

    /// A chained plugin has recorded it, or one that lends interfaces of the host.
    #[test]
    fn an_interface_that_another_plugin_may_have_lent_stays() {
        for (maker, now_by) in [("tuning", "host-device"), ("tuning", "macvlan"), ("host-device", "host-device")] {
            let (mut host, earlier, now) = host(FakeContainer::Unnamed);
            let earlier = AttachmentRecord { maker: maker.to_owned(), ..earlier };
            assert!(!abandoned::remove(&earlier, now_by, &now, &mut host).expect("asked"), "{maker}, {now_by}");
            assert!(host.state().join("\n").contains("macvlan"));
        }
    }
}
