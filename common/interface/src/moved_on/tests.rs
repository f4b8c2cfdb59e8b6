use super::*;
use cni_core::mac::Mac;
use cni_model::link::Address;
use cni_model::plan::{ChildKind, IfPresent, IpvlanMode, LinkKind, MacvlanMode, MasterLink, NewLink};
use cni_plugin::host::LinkQuery;
use cni_plugin::namespace::RecordedNamespace;
use cni_testkit::{FakeContainer, FakeHost};

use crate::fixtures::attachment;
use crate::leftovers;

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

fn make(host: &mut FakeHost, child: &ChildKind, mac: Option<Mac>, (ns, index): (Ns, u32)) {
    let kind = LinkKind::Child { master: MasterLink { ns, index, name: "eno1".to_owned() }, kind: child.clone() };
    let link = NewLink { name: name("eth0"), mac, mtu: None, if_present: IfPresent::Refuse, kind };
    host.apply(&Step::CreateLink { ns: Ns::Container, link }).expect("made");
}

/// DEL with the result of ADD.
fn request(netns: &str) -> Request {
    let result = format!(
        r#"{{"cniVersion":"1.1.0","interfaces":[{{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"{NETNS}"}}],
            "ips":[{{"address":"{ADDRESS}","interface":0}}]}}"#
    );
    let config = format!(r#"{{"cniVersion":"1.1.0","name":"net1","type":"macvlan","prevResult":{result}}}"#);
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
            leftovers::remove_child(kind_of(&child), &request(netns), &mut host).expect("removed");
            assert_eq!(nested_links(&mut host), 0, "{child} {netns:?}");
        }
    }
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
    let index = (&mut host as &mut dyn Host).link(Ns::Container, &name("eth0")).expect("asked").expect("a link").index;
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

#[test]
fn a_link_that_may_be_of_another_stays() {
    type Deed = fn(&mut FakeHost);
    let deeds: [(&str, &ChildKind, Deed); 4] = [
        ("neither MAC address nor address", &MACVLAN, |host| {
            host.enter(NESTED).expect("entered");
            host.change_link(Ns::Container, "eth0", |link| link.mac = Some(Mac::local([0, 0, 0, 0, 0, 7])));
        }),
        ("the MAC address of the master", &IPVLAN, |_| {}),
        ("recorded for another", &MACVLAN, |host| {
            host.enter(NESTED).expect("entered");
            let namespace = RecordedNamespace::of_entered(NESTED, host).expect("asked").expect("identified");
            let link = (host as &mut dyn Host).link(Ns::Container, &name("eth0")).expect("asked");
            let link = link.as_ref().map(RecordedLink::of);
            let at = attachment("c2", "eth0");
            let record = AttachmentRecord { at, maker: "macvlan".to_owned(), namespace, link, is_again: false };
            host.apply(&record.write()).expect("written");
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
