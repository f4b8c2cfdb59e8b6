//! Links that a container puts in the place of the one that it was given, and other networks.

use super::*;
use crate::moved_link::MovedLink;
use cni_model::plan::{IfPresent, LinkKind, NewLink, VethPeer};
use cni_plugin::json_record::JsonRecord as _;
use cni_testkit::attachment;

/// A veth in place of the hardware, whose other end is on the host as `far`.
fn machine_with_veth() -> FakeHost {
    let mut host = FakeHost::new().with_ipam(ANSWER).with_bridge("br0", "10.9.0.1/16");
    host.set_container(NETNS, FakeContainer::Present(Some("boot:1".to_owned())));
    host.apply(&veth(Ns::Host, "ens1", "far")).expect("a veth");
    for setting in [LinkSetting::Master(name("br0")), LinkSetting::Alias("uplink".to_owned()), LinkSetting::Up] {
        host.apply(&Step::set_link(Ns::Host, &name("ens1"), setting)).expect("set");
    }
    host.clear_log();
    host
}

/// A pair whose first end has the MAC address of the interface.
fn veth(ns: Ns, of: &str, peer: &str) -> Step {
    let peer = VethPeer { ns, name: name(peer), mac: "02:00:00:00:00:0b".parse().expect("a MAC") };
    let mac = Some(MAC.parse().expect("a MAC"));
    let kind = LinkKind::Veth { peer };
    Step::CreateLink { ns, link: NewLink { name: name(of), mac, mtu: None, if_present: IfPresent::Refuse, kind } }
}

/// What root in the container puts in the place of the interface: a link of the same index, name, address and alias.
fn put_in_its_place(host: &mut FakeHost, made: &Step, index: u32) {
    host.apply(made).expect("made");
    host.change_link(Ns::Container, "eth0", |link| {
        (link.index, link.mac, link.alias) = (index, Some(MAC.parse().expect("a MAC")), Some("ens1".to_owned()));
    });
}

#[test]
fn a_veth_comes_back_as_it_was() {
    lifecycle::assert_del_removes_what_add_made(&HostDevice, &mut machine_with_veth(), &caller(PLAIN));
}

/// It would be a wire from the container into the bridge.
#[test]
fn a_veth_that_the_container_has_made_comes_back_down_and_in_no_bridge() {
    let mut host = machine_with_veth();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    let index = on_container(&mut host).index;
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("eth0") }).expect("removed");
    put_in_its_place(&mut host, &veth(Ns::Container, "eth0", "tail"), index);
    for _ in 0..2 {
        caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
        let link = on_host(&mut host, "ens1").expect("back");
        assert_eq!((link.up, link.master), (false, None));
    }
}

/// The host still has what the interface led to, so the interface exists, and this one is another. It comes back from where it
/// is hidden.
#[test]
fn a_link_that_is_another_one_for_certain_stays_in_the_container() {
    let mut host = machine_with_veth();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    record("c1", NETNS, &mut host);
    let index = on_container(&mut host).index;
    host.change_link(Ns::Container, "eth0", |link| (link.name, link.index) = ("hidden".to_owned(), 99));
    put_in_its_place(&mut host, &veth(Ns::Container, "eth0", "tail"), index);
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    assert_eq!(names(&mut host, Ns::Host), ["lo", "br0", "far", "ens1"]);
    let inside = names(&mut host, Ns::Container);
    assert!(inside.contains(&"eth0".to_owned()) && !inside.contains(&"hidden".to_owned()), "{inside:?}");
}

fn rename(host: &mut FakeHost, old: &str, new: &str) {
    host.change_link(Ns::Container, old, |link| new.clone_into(&mut link.name));
}

#[test]
fn the_link_that_was_proven_comes_back_although_another_one_has_its_name_by_then() {
    let mut host = machine_with_veth();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    host.apply(&veth(Ns::Container, "own", "tail")).expect("made");
    host.interfere_before("netns host", |host| {
        rename(host, "eth0", "x");
        rename(host, "own", "eth0");
    });
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    let link = on_host(&mut host, "ens1").expect("back");
    assert_eq!((link.alias.as_deref(), link.up, link.master.is_some()), (Some("uplink"), true, true));
    assert_eq!(names(&mut host, Ns::Container), ["lo", "eth0", "tail"]);
}

/// The index is the container's choice, too.
#[test]
fn a_link_that_has_the_index_of_the_proven_one_by_then_goes_back_into_the_container() {
    let mut host = machine_with_veth();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    record("c1", NETNS, &mut host);
    host.interfere_before("netns host", |host| {
        let index = on_container(host).index;
        host.change_link(Ns::Container, "eth0", |link| (link.name, link.index) = ("hidden".to_owned(), 99));
        put_in_its_place(host, &veth(Ns::Container, "eth0", "tail"), index);
    });
    let error = caller(PLAIN).del(&HostDevice, &mut host).expect_err("another link");
    let want = "ens1 stays in the container namespace: another link took its place while it was moved to the host";
    assert_eq!((error.code().number(), error.to_string().as_str()), (11, want));
    assert!(on_host(&mut host, "ens1").is_none() && names(&mut host, Ns::Container).contains(&"eth0".to_owned()));
    assert!(!host.delegated().contains(&"static DEL".to_owned()));
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    assert!(on_host(&mut host, "ens1").is_some_and(|link| link.up && link.master.is_some()));
}

/// The kernel allows what a configuration may not have, and texts of other encodings.
#[test]
fn a_link_comes_back_under_its_own_name_whatever_its_name_in_the_container_is() {
    for text in ["\u{3000}".to_owned(), "\u{fffd}".repeat(15)] {
        let mut host = machine_with_veth();
        let before = host.state();
        caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
        host.change_link(Ns::Container, "eth0", |link| link.name.clone_from(&text));
        caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
        assert_eq!(host.state(), before);
    }
}

/// Nothing that root in the container can change is left as it was.
#[test]
fn a_link_comes_back_from_a_namespace_that_the_container_has_made() {
    const NESTED: &str = "/proc/7/ns/net";
    for machine in [machine_with_veth, machine_with_card] {
        let mut host = machine();
        host.set_container(NETNS, FakeContainer::Present(Some("boot:1".to_owned())));
        host.set_container(NESTED, FakeContainer::Present(Some("boot:7".to_owned())));
        caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
        record("c1", NETNS, &mut host);
        host.change_link(Ns::Container, "eth0", |link| (link.index, link.mac, link.alias) = (99, None, None));
        host.move_on("eth0", NESTED);
        caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
        let link = on_host(&mut host, "ens1").expect("back");
        assert_eq!((link.alias.as_deref(), link.up, link.master.is_some()), (Some("uplink"), true, true));
    }
}

#[test]
fn a_link_of_another_kind_in_the_place_of_hardware_stays_in_the_container() {
    let mut host = machine();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    let index = on_container(&mut host).index;
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("eth0") }).expect("away");
    put_in_its_place(&mut host, &veth(Ns::Container, "eth0", "tail"), index);
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    assert_eq!(names(&mut host, Ns::Host), ["lo", "br0"]);
}

/// As after an update while containers run.
#[test]
fn a_link_whose_record_proves_nothing_comes_back_down() {
    let mut host = machine();
    caller(PLAIN).add(&HostDevice, &mut host).expect("ADD");
    let at = attachment("n1", "c1", "eth0");
    let loan = MovedLink::read(&at, &mut host).expect("read").expect("a record");
    host.apply(&MovedLink { evidence: None, ..loan }.write(&at)).expect("written");
    caller(PLAIN).del(&HostDevice, &mut host).expect("DEL");
    let link = on_host(&mut host, "ens1").expect("back");
    assert_eq!((link.up, link.master, link.alias.as_deref()), (false, None, Some("uplink")));
}
