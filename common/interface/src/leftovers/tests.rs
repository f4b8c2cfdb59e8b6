use super::*;
use cni_plugin::link::Address;
use cni_testkit::{FakeContainer, FakeHost};

use crate::fixtures::{attachment, request};

const NETNS: &str = "/run/netns/c1";

fn link(name: &str, alias: Option<&str>) -> Link {
    let (kind, alias) = (Some("veth".to_owned()), alias.map(str::to_owned));
    Link { name: name.to_owned(), kind, alias, ..Link::default() }
}

/// A container with two interfaces, one address each.
fn host() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    for (name, cidr) in [("eth0", "10.1.2.5/24"), ("eth1", "10.1.3.5/24")] {
        host.add_link(Ns::Container, link(name, None));
        let cidr = cidr.parse().expect("CIDR");
        host.add_address(Ns::Container, name, Address { cidr, tentative: false, dad_failed: false });
    }
    host
}

#[test]
fn the_sandbox_tells_own_addresses_from_others() {
    let at = attachment("c1", "eth0");
    let Sandbox { reached, link, own, others } = observe_sandbox(&request(NETNS), &at, &mut host()).expect("observed");
    assert!(reached && link.is_some_and(|link| link.name == "eth0"));
    assert_eq!(own, ["10.1.2.5/24".parse().expect("CIDR")]);
    assert!(others.contains(&"10.1.3.5".parse().expect("address")) && !others.contains(&own[0].address()));
}

#[test]
fn a_namespace_that_is_gone_is_no_failure_and_one_that_is_closed_is() {
    let mut host = host();
    host.set_container(NETNS, FakeContainer::Gone);
    let at = attachment("c1", "eth0");
    assert_eq!(observe_sandbox(&request(NETNS), &at, &mut host).expect("gone"), Sandbox::default());
    remove_interface(&request(NETNS), &mut host).expect("gone");
    host.set_container(NETNS, FakeContainer::Closed);
    assert_eq!(observe_sandbox(&request(NETNS), &at, &mut host).expect_err("closed").code().number(), 8);
    assert_eq!(remove_interface(&request(NETNS), &mut host).expect_err("closed").code().number(), 8);
}

#[test]
fn an_interface_is_removed_once_and_again() {
    let mut host = host();
    for _ in ["there", "gone"] {
        remove_interface(&request(NETNS), &mut host).expect("removed");
        assert!(!has(&mut host, Ns::Container, "eth0"));
    }
    assert!(has(&mut host, Ns::Container, "eth1"));
}

fn has(host: &mut dyn Host, ns: Ns, name: &str) -> bool {
    host.link(ns, &IfName::parse(name).expect("name")).expect("asked").is_some()
}

fn with_aliases(aliases: &[(&str, &str)]) -> FakeHost {
    let mut host = FakeHost::new();
    for (name, alias) in aliases {
        host.add_link(Ns::Host, link(name, Some(alias)));
    }
    host
}

const ALIASES: [(&str, &str); 4] = [
    ("veth1", "cni:net1:c1:eth0"),
    ("veth2", "cni:net1:c2:eth0"),
    ("veth3", "cni:net2:c1:eth0"),
    ("veth4", "cni:net1:c1:eth1"),
];

fn names(host: &mut FakeHost) -> Vec<&'static str> {
    ALIASES.into_iter().map(|(name, _)| name).filter(|name| has(host, Ns::Host, name)).collect()
}

#[test]
fn the_links_of_one_attachment_are_removed_by_their_alias() {
    let mut host = with_aliases(&ALIASES);
    remove_links_of(&attachment("c1", "eth0"), &mut host).expect("removed");
    assert_eq!(names(&mut host), ["veth2", "veth3", "veth4"]);
}

#[test]
fn the_links_of_a_network_that_no_valid_attachment_has_are_stale() {
    let json = br#"{"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}"#;
    let json = cni_core::json::Json::parse(json).expect("JSON");
    let valid = ValidAttachments::parse(&json).expect("a list").expect("given");
    let network = attachment("c1", "eth0").network;
    let stale = stale_links(&network, &valid, &mut with_aliases(&ALIASES)).expect("asked");
    assert_eq!(stale.into_iter().map(|link| link.name).collect::<Vec<_>>(), ["veth2", "veth4"]);
}
