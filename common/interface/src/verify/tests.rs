use super::*;
use cni_model::link::Address;
use cni_testkit::{FakeContainer, FakeHost};

const NETNS: &str = "/run/netns/c";

fn name() -> IfName {
    IfName::parse("eth0").expect("name")
}

fn interface(name: &str, mac: &str, sandbox: &str) -> Interface {
    Interface { name: name.to_owned(), mac: mac.to_owned(), sandbox: sandbox.to_owned(), ..Interface::default() }
}

fn link(name: &str) -> Link {
    let mac = "02:00:00:00:00:0a".parse().ok();
    Link { name: name.to_owned(), kind: Some("dummy".to_owned()), mac, up: true, ..Link::default() }
}

fn reported(interfaces: Vec<Interface>) -> Result<String, String> {
    let result = CniResult { interfaces, ..CniResult::default() };
    interface_of_result(&result, &name(), NETNS).map(|reported| reported.mac.clone()).map_err(|error| error.to_string())
}

#[test]
fn the_last_interface_of_the_name_in_the_namespace_counts() {
    let twice = vec![interface("eth0", "a", NETNS), interface("eth0", "b", NETNS), interface("eth1", "c", NETNS)];
    assert_eq!(reported(twice), Ok("b".to_owned()));
    let elsewhere = "Sandbox in prevResult /run/netns/other doesn't match configured netns: /run/netns/c";
    assert_eq!(reported(vec![interface("eth0", "a", "/run/netns/other")]), Err(elsewhere.to_owned()));
    let nowhere = r#"prevResult has no interface eth0 in "/run/netns/c""#;
    assert_eq!(reported(vec![interface("eth0", "a", "")]), Err(nowhere.to_owned()));
}

#[test]
fn an_interface_of_the_host_has_no_sandbox() {
    let result = CniResult { interfaces: vec![interface("eth0", "", "")], ..CniResult::default() };
    assert!(require_on_host(&result, &name()).is_ok());
    let inside = CniResult { interfaces: vec![interface("eth0", "", NETNS)], ..CniResult::default() };
    let error = require_on_host(&inside, &name()).expect_err("inside");
    assert_eq!(
        (error.code().number(), error.to_string()),
        (7, "prevResult has no interface eth0 on the host".to_owned())
    );
}

#[test]
fn what_a_link_is_not_is_named() {
    let down = Link { up: false, ..link("eth0") };
    assert_eq!(
        kind(&link("eth0"), "veth").expect_err("kind").to_string(),
        "Interface eth0 does not have link type of veth"
    );
    assert_eq!(up(Ns::Host, &down).expect_err("down").to_string(), "Interface eth0 in the host namespace is down");
    assert!(kind(&link("eth0"), "dummy").is_ok() && up(Ns::Host, &link("eth0")).is_ok());
}

#[test]
fn a_mac_is_compared_if_the_result_has_one_in_any_spelling() {
    let compare =
        |reported: &str| mac(&link("eth0"), &interface("eth0", reported, NETNS)).map_err(|error| error.to_string());
    for same in ["", "02:00:00:00:00:0A", "02-00-00-00-00-0A", "0200.0000.000a"] {
        assert_eq!(compare(same), Ok(()), "{same}");
    }
    let other = "Interface eth0 Mac 02:00:00:00:00:0b doesn't match container Mac: 02:00:00:00:00:0a";
    assert_eq!(compare("02:00:00:00:00:0b"), Err(other.to_owned()));
    assert_eq!(mac_of_result(&interface("eth0", "zz", NETNS)).expect_err("no MAC").code().number(), 7);
}

/// A container with these addresses on `eth0`, whose networks the kernel knows.
fn host(found: &[&str]) -> (FakeHost, Link) {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    let index = host.add_link(Ns::Container, link("eth0"));
    for cidr in found {
        let cidr = cidr.parse().expect("CIDR");
        host.add_address(Ns::Container, "eth0", Address { cidr, tentative: false, dad_failed: false });
    }
    (host, Link { index, ..link("eth0") })
}

fn with_ips(reported: &[&str]) -> CniResult {
    let ip = |text: &&str| cni_core::result::IpConfig {
        interface: None,
        address: text.parse().expect("CIDR"),
        gateway: None,
    };
    CniResult { ips: reported.iter().map(ip).collect(), ..CniResult::default() }
}

#[test]
fn every_address_of_the_result_must_be_there() {
    let compare = |found: &[&str], reported: &[&str]| {
        let (mut host, link) = host(found);
        addresses(&with_ips(reported), &link, &mut host).map_err(|error| error.to_string())
    };
    assert_eq!(compare(&["10.1.2.5/24", "fd00::5/64", "10.1.2.9/24"], &["10.1.2.5/24", "fd00::5/64"]), Ok(()));
    assert_eq!(compare(&["10.1.2.5/32"], &["10.1.2.5/32"]), Ok(()));
    let missing = "Failed to match addr 10.1.2.5/24 on interface eth0";
    assert_eq!(compare(&["10.1.2.5/25"], &["10.1.2.5/24"]), Err(missing.to_owned()));
}

#[test]
fn a_link_that_is_gone_is_named_with_its_namespace() {
    let (mut host, _) = host(&[]);
    assert_eq!(present(Ns::Container, &name(), &mut host).expect("there").name, "eth0");
    let error = present(Ns::Host, &name(), &mut host).expect_err("not on the host");
    assert_eq!(error.to_string(), "Interface name eth0 not found in the host namespace");
    assert_eq!(error.code().number(), 100);
}
