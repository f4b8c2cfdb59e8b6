use super::*;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_model::link::Address;
use cni_model::plan::{ChildKind, IfPresent, IpvlanMode, LinkKind, MacvlanMode, MasterLink, NewLink};
use cni_plugin::host::LinkQuery;
use cni_plugin::namespace::RecordedNamespace;
use cni_plugin::namespace_state::NamespaceState as _;
use cni_testkit::{FakeContainer, FakeHost};

use crate::fixtures::attachment;
use crate::{child, leftovers};

const NETNS: &str = "/run/netns/c1";
const NESTED: &str = "/proc/7/ns/net";
const ADDRESS: &str = "10.1.2.5/24";

const MACVLAN: ChildKind = ChildKind::Macvlan { mode: MacvlanMode::Bridge, broadcast_queue: None };
const IPVLAN: ChildKind = ChildKind::Ipvlan { mode: IpvlanMode::L2 };

fn kind_of(child: &ChildKind) -> &'static str {
    child.name()
}

/// A host with a master, and a container with a child of that, which is recorded. The container has a second namespace.
fn host(child: &ChildKind) -> FakeHost {
    let mut host = FakeHost::new();
    let mac = Some(Mac::local([0, 0, 0, 0, 0, 9]));
    let index = host.add_link(Ns::Host, Link { name: "eno1".to_owned(), mac, mtu: 1500, up: true, ..Link::default() });
    for (path, identity) in [(NETNS, "boot:1"), (NESTED, "boot:2")] {
        host.set_container(path, FakeContainer::Present(Some(identity.to_owned())));
    }
    host.enter(NETNS).expect("entered");
    let mac = matches!(child, ChildKind::Macvlan { .. }).then(|| Mac::local([0, 0, 0, 0, 0, 1]));
    make(&mut host, child, mac, (Ns::Host, index));
    let namespace = RecordedNamespace::of_entered(NETNS, &mut host).expect("asked").expect("identified");
    let made = (&mut host as &mut dyn Host).link(Ns::Container, &name("eth0")).expect("asked").expect("made");
    let link = Some(RecordedLink::of(&made));
    let record = AttachmentRecord {
        at: attachment("c1", "eth0"),
        maker: kind_of(child).to_owned(),
        namespace,
        link,
        is_again: false,
    };
    host.apply(&record.write()).expect("written");
    host
}

fn name(text: &str) -> IfName {
    IfName::parse(text).expect("a name")
}

fn index_of(host: &mut dyn Host, ns: Ns, link: &str) -> u32 {
    host.link(ns, &name(link)).expect("asked").expect("a link").index
}

fn make(host: &mut FakeHost, child: &ChildKind, mac: Option<Mac>, (ns, index): (Ns, u32)) {
    let kind = LinkKind::Child { master: MasterLink { ns, index, name: "eno1".to_owned() }, kind: child.clone() };
    let link = NewLink { name: name("eth0"), mac, mtu: None, if_present: IfPresent::Refuse, kind };
    host.apply(&Step::CreateLink { ns: Ns::Container, link }).expect("made");
}

/// DEL with the result of ADD.
fn request(netns: &str) -> Request {
    request_with("host-local", netns)
}

fn request_with(ipam: &str, netns: &str) -> Request {
    let result = format!(
        r#"{{"cniVersion":"1.1.0","interfaces":[{{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"{NETNS}"}}],
            "ips":[{{"address":"{ADDRESS}","interface":0}}]}}"#
    );
    let config = format!(
        r#"{{"cniVersion":"1.1.0","name":"net1","type":"macvlan","ipam":{{"type":"{ipam}"}},"prevResult":{result}}}"#
    );
    cni_testkit::request("DEL", &[("CNI_NETNS", netns)], &config)
}

fn give_address(host: &mut FakeHost, path: &str) {
    host.enter(path).expect("entered");
    host.add_address(
        Ns::Container,
        "eth0",
        Address { cidr: ADDRESS.parse().expect("CIDR"), tentative: false, dad_failed: false },
    );
}

/// The record of another container's attachment; without a link, its ADD is at work.
fn record_another(host: &mut FakeHost, path: &str, link: Option<RecordedLink>) {
    host.enter(path).expect("entered");
    let namespace = RecordedNamespace::of_entered(path, host).expect("asked").expect("identified");
    let at = attachment("c2", "eth0");
    let record = AttachmentRecord { at, maker: "macvlan".to_owned(), namespace, link, is_again: false };
    host.apply(&record.write()).expect("written");
}

fn nested_links(host: &mut FakeHost) -> usize {
    host.enter(NESTED).expect("entered");
    host.links(Ns::Container, LinkQuery::All).expect("asked").len() - 1
}

#[test]
fn a_child_is_removed_from_where_its_container_has_moved_it() {
    for child in [MACVLAN, IPVLAN] {
        for netns in [NETNS, ""] {
            let mut host = host(&child);
            host.move_on("eth0", NESTED);
            give_address(&mut host, NESTED);
            host.enter(NETNS).expect("entered");
            leftovers::remove_child(kind_of(&child), &request(netns), &mut host).expect("removed");
            assert!(host.leads_to_container(NETNS).expect("asked"), "the search has returned");
            assert_eq!(nested_links(&mut host), 0, "{child} {netns:?}");
        }
    }
}

#[test]
fn a_child_is_removed_that_its_container_moves_on_before_the_removal() {
    let mut host = host(&MACVLAN);
    host.interfere_before("link del", |host| host.move_on("eth0", NESTED));
    leftovers::remove_child("macvlan", &request(NETNS), &mut host).expect("removed");
    assert_eq!(nested_links(&mut host), 0);
}

#[test]
fn a_child_is_removed_though_the_namespace_of_its_container_has_ended() {
    let mut host = host(&MACVLAN);
    host.move_on("eth0", NESTED);
    host.set_container(NETNS, FakeContainer::Gone);
    leftovers::remove_child("macvlan", &request(""), &mut host).expect("removed");
    assert_eq!(nested_links(&mut host), 0);
}

/// Its MAC address is changed, and another link has its index in the container.
#[test]
fn a_child_is_found_by_its_address_though_another_link_is_in_its_place() {
    let mut host = host(&MACVLAN);
    let index = index_of(&mut host, Ns::Container, "eth0");
    host.move_on("eth0", NESTED);
    give_address(&mut host, NESTED);
    host.change_link(Ns::Container, "eth0", |link| link.mac = Some(Mac::local([0, 0, 0, 0, 0, 7])));
    host.enter(NETNS).expect("entered");
    let inside = host.add_link(Ns::Container, Link { name: "in0".to_owned(), ..Link::default() });
    make(&mut host, &MACVLAN, None, (Ns::Container, inside));
    host.change_link(Ns::Container, "eth0", |link| link.index = index);
    leftovers::remove_child("macvlan", &request(NETNS), &mut host).expect("removed");
    assert_eq!(nested_links(&mut host), 0);
}

/// The container has made it on its own link. It has the recorded index, but another MAC address, or not the address.
#[test]
fn a_child_is_found_though_a_sibling_is_in_its_place() {
    for child in [MACVLAN, IPVLAN] {
        for netns in [NETNS, ""] {
            let mut host = host(&child);
            let index = index_of(&mut host, Ns::Container, "eth0");
            host.move_on("eth0", NESTED);
            give_address(&mut host, NESTED);
            host.enter(NETNS).expect("entered");
            let master = index_of(&mut host, Ns::Host, "eno1");
            let mac = matches!(child, ChildKind::Macvlan { .. }).then(|| Mac::local([0, 0, 0, 0, 0, 7]));
            make(&mut host, &child, mac, (Ns::Host, master));
            host.change_link(Ns::Container, "eth0", |link| link.index = index);
            leftovers::remove_child(kind_of(&child), &request(netns), &mut host).expect("removed");
            assert_eq!(nested_links(&mut host), 0, "{child} {netns:?}");
            host.enter(NETNS).expect("entered");
            assert_eq!(host.links(Ns::Container, LinkQuery::All).expect("asked").len(), 1, "{child} {netns:?}");
        }
    }
}

/// A container may change the MAC address of its link, which then is no sign of a move.
#[test]
fn a_child_with_another_mac_address_is_removed_where_it_is() {
    let mut host = host(&MACVLAN);
    host.change_link(Ns::Container, "eth0", |link| link.mac = Some(Mac::local([0, 0, 0, 0, 0, 7])));
    leftovers::remove_child("macvlan", &request(NETNS), &mut host).expect("removed");
    assert_eq!(host.links(Ns::Container, LinkQuery::All).expect("asked").len(), 1);
}

/// CHECK of other IPAM plugins than host-local may succeed without a lease.
#[test]
fn an_address_counts_only_with_a_lease_of_host_local() {
    for (ipam, left) in [("host-local", 0), ("static", 1), ("other", 1)] {
        let mut host = host(&IPVLAN);
        host.move_on("eth0", NESTED);
        give_address(&mut host, NESTED);
        leftovers::remove_child("ipvlan", &request_with(ipam, ""), &mut host).expect("nothing fails");
        assert_eq!(nested_links(&mut host), left, "{ipam}");
    }
}

#[test]
fn a_link_that_may_be_of_another_stays() {
    type Deed = fn(&mut FakeHost);
    let deeds: [(&str, &ChildKind, Deed); 7] = [
        ("neither MAC address nor address", &MACVLAN, |host| {
            host.enter(NESTED).expect("entered");
            host.change_link(Ns::Container, "eth0", |link| link.mac = Some(Mac::local([0, 0, 0, 0, 0, 7])));
        }),
        ("the MAC address of the master", &IPVLAN, |_| {}),
        ("recorded for another", &MACVLAN, |host| {
            host.enter(NESTED).expect("entered");
            let link = (host as &mut dyn Host).link(Ns::Container, &name("eth0")).expect("asked");
            record_another(host, NESTED, link.as_ref().map(RecordedLink::of));
        }),
        ("in a namespace to which another is being added", &MACVLAN, |host| record_another(host, NESTED, None)),
        ("moved on by another", &MACVLAN, |host| {
            host.enter(NESTED).expect("entered");
            let link = (host as &mut dyn Host).link(Ns::Container, &name("eth0")).expect("asked").expect("a link");
            host.set_container("/run/netns/c2", FakeContainer::Present(Some("boot:3".to_owned())));
            record_another(host, "/run/netns/c2", Some(RecordedLink { index: 99, ..RecordedLink::of(&link) }));
        }),
        ("with an address that is leased to another", &IPVLAN, |host| {
            give_address(host, NESTED);
            host.fail_delegate(Some(Command::Check));
        }),
        ("another master", &MACVLAN, |host| {
            host.enter(NESTED).expect("entered");
            host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("eth0") }).expect("removed");
            let master = host.add_link(Ns::Host, Link { name: "eno2".to_owned(), ..Link::default() });
            make(host, &MACVLAN, Some(Mac::local([0, 0, 0, 0, 0, 1])), (Ns::Host, master));
            give_address(host, NESTED);
        }),
    ];
    for (what, child, deed) in deeds {
        let mut host = host(child);
        host.move_on("eth0", NESTED);
        deed(&mut host);
        leftovers::remove_child(kind_of(child), &request(NETNS), &mut host).expect("nothing is removed");
        assert_eq!(nested_links(&mut host), 1, "{what}");
    }
}

#[test]
fn a_child_that_the_container_has_deleted_is_no_failure() {
    let mut host = host(&MACVLAN);
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("eth0") }).expect("removed");
    leftovers::remove_child("macvlan", &request(NETNS), &mut host).expect("a missing link is success");
}

fn collect(host: &mut FakeHost, valid: &str) -> Result<(), Error> {
    let config = format!(
        r#"{{"cniVersion":"1.1.0","name":"net1","type":"macvlan","ipam":{{"type":"host-local"}},"cni.dev/valid-attachments":{valid}}}"#
    );
    let request = cni_testkit::request("GC", &[], &config);
    let valid = request.valid_attachments().expect("readable").expect("a list");
    child::gc("macvlan", &request, &valid, host)
}

#[test]
fn gc_removes_a_child_from_where_its_container_has_moved_it() {
    let mut host = host(&MACVLAN);
    host.move_on("eth0", NESTED);
    collect(&mut host, r#"[{"containerID":"c1","ifname":"eth0"}]"#).expect("nothing is removed");
    assert_eq!(nested_links(&mut host), 1);
    collect(&mut host, "[]").expect("removed");
    assert_eq!(nested_links(&mut host), 0);
    assert_eq!(host.delegated(), ["host-local GC"; 2]);
    assert_eq!(host.inputs(), [""; 0], "by the runtime's configuration");
}

#[test]
fn gc_keeps_the_address_of_a_child_that_it_cannot_remove() {
    let mut host = host(&MACVLAN);
    host.move_on("eth0", NESTED);
    host.fail_at(host.applied().len() + 1);
    let valid = r#"[{"containerID":"c0","ifname":"eth0"}]"#;
    assert_eq!(collect(&mut host, valid).expect_err("refused").code().number(), 101);
    assert_eq!(nested_links(&mut host), 1);
    let kept = r#"[{"containerID":"c0","ifname":"eth0"},{"containerID":"c1","ifname":"eth0"}]"#;
    let [input] = host.inputs() else { panic!("one call: {:?}", host.inputs()) };
    assert!(input.starts_with("host-local GC ") && input.contains(kept), "{input}");
}

/// While the container lives, it may have hidden its link.
#[test]
fn gc_keeps_the_address_of_a_child_that_may_be_out_of_sight() {
    let mut host = host(&MACVLAN);
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("eth0") }).expect("removed");
    host.unseen = Some("a namespace".to_owned());
    let error = collect(&mut host, "[]").expect_err("it may be there");
    assert_eq!((error.code().number(), error.details()), (11, "a namespace".to_owned()));
    assert!(host.inputs()[0].contains(r#"[{"containerID":"c1","ifname":"eth0"}]"#), "{:?}", host.inputs());
    host.set_container(NETNS, FakeContainer::Gone);
    collect(&mut host, "[]").expect("it has ended");
    assert_eq!(host.inputs().len(), 1, "by the runtime's configuration");
}
