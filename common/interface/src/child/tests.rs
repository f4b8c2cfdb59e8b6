//! Masters by name and by default route, and the MTU that they allow.

use cni_core::error::Failure as _;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_model::plan::NewRoute;
use cni_testkit::{FakeHost, error_parts};

use super::*;

fn ethernet(name: &str, last: u8) -> Link {
    Link { name: name.to_owned(), mac: Some(Mac::local([0, 0, 0, 0, 0, last])), mtu: 1500, up: true, ..Link::default() }
}

/// A host with two Ethernet links and a tunnel.
fn host() -> FakeHost {
    let mut host = FakeHost::new();
    for (name, last) in [("eno1", 1), ("eno2", 2)] {
        host.add_link(Ns::Host, ethernet(name, last));
    }
    host.add_link(Ns::Host, Link { mac: None, ..ethernet("tun0", 0) });
    host
}

fn route(host: &mut FakeHost, dst: &str, by: &str) {
    let route = NewRoute::to(dst.parse().expect("CIDR"));
    host.apply(&Step::AddRoute { ns: Ns::Host, name: IfName::parse(by).expect("a name"), route }).expect("a route");
}

fn of_default_route() -> MasterChoice {
    MasterChoice::of_keys(String::new(), false)
}

#[test]
fn the_master_that_is_named_is_looked_for_where_the_configuration_says() {
    let choice = MasterChoice::of_keys("eno2".to_owned(), false);
    let link = choice.find(&mut host()).expect("there");
    assert_eq!(choice.of_link(&link).name, "eno2");
    let text = r#"failed to lookup master "eno3": Link not found"#;
    let missing = MasterChoice::of_keys("eno3".to_owned(), false).find(&mut host()).expect_err("not there");
    assert_eq!((missing.code().number(), missing.to_string()), (7, text.to_owned()));
    let inside = MasterError::NotFound { name: "eno3".to_owned(), ns: Ns::Container };
    assert_ne!(inside.details(), missing.details());
}

#[test]
fn without_a_name_it_is_the_link_of_the_default_route_of_ipv4_before_ipv6() {
    let mut host = host();
    route(&mut host, "::/0", "eno2");
    assert_eq!(of_default_route().find(&mut host).expect("found").name, "eno2");
    route(&mut host, "0.0.0.0/0", "eno1");
    assert_eq!(of_default_route().find(&mut host).expect("found").name, "eno1");
}

#[test]
fn a_default_route_to_a_tunnel_is_passed_over() {
    let mut host = host();
    route(&mut host, "0.0.0.0/0", "tun0");
    let error = error_parts(of_default_route().find(&mut host).expect_err("no master"));
    let details = "master is not given, and on the host the default route of IPv4 leads to no Ethernet link but tun0";
    assert_eq!(error, (7, "no default route interface found".to_owned(), details.to_owned()));
    route(&mut host, "::/0", "eno2");
    assert_eq!(of_default_route().find(&mut host).expect("found").name, "eno2");
}

#[test]
fn without_any_default_route_there_is_no_master() {
    let mut host = host();
    for half in ["0.0.0.0/1", "128.0.0.0/1"] {
        route(&mut host, half, "eno1");
    }
    let error = error_parts(of_default_route().find(&mut host).expect_err("no master"));
    assert_eq!(error.1, "no default route interface found");
    assert_eq!(error.2, "master is not given, and the host has no default route");
}

#[test]
fn the_masters_mtu_is_the_limit() {
    let master = ethernet("eno1", 1);
    for (mtu, want) in [(0, None), (1, Some(1)), (1500, Some(1500))] {
        assert_eq!(within_master(mtu, &master), Ok(want));
    }
    for mtu in [-100, 1501, i64::MAX, i64::MIN] {
        assert_eq!(within_master(mtu, &master), Err(MtuError { mtu, limit: 1500 }));
    }
}
