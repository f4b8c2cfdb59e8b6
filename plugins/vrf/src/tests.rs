//! The life of a VRF, on a machine in memory.

use super::*;
use cni_core::names::IfName;
use cni_model::link::{Address, Link};
use cni_model::plan::{LinkSetting, NewRoute, Ns, Step};
use cni_model::routing::MAIN_TABLE;
use cni_plugin::host::Host;
use cni_testkit::lifecycle::assert_add_is_all_or_nothing;
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};

const NETNS: &str = "/run/netns/c1";

fn caller(ifname: &str, keys: &str) -> Caller {
    let config =
        format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"vrf","prevResult":{{"cniVersion":"1.1.0"}},{keys}}}"#);
    Caller { ifname: ifname.to_owned(), ..Caller::new("c1", &config) }
}

fn red(ifname: &str) -> Caller {
    caller(ifname, r#""vrfname":"red""#)
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

/// A container with two interfaces; the first has a route through a router.
fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    for (link, cidr) in [("net1", "10.91.0.2/24"), ("net2", "10.92.0.2/24")] {
        host.add_link(Ns::Container, Link { name: link.to_owned(), up: true, mtu: 1500, ..Link::default() });
        let cidr = cidr.parse().expect("CIDR");
        host.add_address(Ns::Container, link, Address { cidr, tentative: false, dad_failed: false });
    }
    let gw = Some([10, 91, 0, 1].into());
    let route = NewRoute { gw, ..NewRoute::to("10.99.0.0/16".parse().expect("CIDR")) };
    host.apply(&Step::AddRoute { ns: Ns::Container, name: name("net1"), route }).expect("a route");
    host.clear_log();
    host
}

fn link(link: &str, host: &mut FakeHost) -> Option<Link> {
    (host as &mut dyn Host).link(Ns::Container, &name(link)).expect("links")
}

/// Whether the route by the router is in a table.
fn is_routed(table: u32, host: &mut FakeHost) -> bool {
    let routes = host.routing().full_routes(Ns::Container, cni_core::family::Family::V4, table).expect("routes");
    routes.iter().any(|route| route.gateway.is_some())
}

fn refused(caller: &Caller, host: &mut FakeHost) -> (u32, String) {
    let before = host.state();
    let (code, text, _) = error_parts(caller.add(&Vrf, host).expect_err("refused"));
    assert_eq!(host.state(), before);
    (code, text)
}

#[test]
fn add_makes_the_vrf_and_moves_the_interface_with_its_routes() {
    let mut host = machine();
    red("net1").add(&Vrf, &mut host).expect("ADD");
    let vrf = link("red", &mut host).expect("the VRF");
    assert_eq!((vrf.vrf_table, vrf.up), (Some(1), true));
    assert_eq!(link("net1", &mut host).and_then(|link| link.master), Some(vrf.index));
    assert!(is_routed(1, &mut host) && !is_routed(MAIN_TABLE, &mut host));
    red("net1").check(&Vrf, &mut host).expect("CHECK");
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Vrf, machine, &red("net1")), 8);
}

#[test]
fn del_takes_the_interface_out_and_the_last_one_takes_the_vrf_along() {
    let mut host = machine();
    red("net1").add(&Vrf, &mut host).expect("ADD");
    red("net2").add(&Vrf, &mut host).expect("ADD");
    for _ in 0..2 {
        red("net1").del(&Vrf, &mut host).expect("DEL");
        assert!(is_routed(MAIN_TABLE, &mut host) && link("red", &mut host).is_some());
    }
    red("net2").check(&Vrf, &mut host).expect("CHECK");
    for _ in 0..2 {
        red("net2").del(&Vrf, &mut host).expect("DEL");
        assert_eq!(link("red", &mut host), None);
    }
    assert_eq!(link("net1", &mut host).and_then(|link| link.master), None);
}

/// Once the interface has left the VRF nobody knows them any more.
#[test]
fn a_route_is_restored_though_the_first_attempt_fails() {
    let mut host = machine();
    red("net1").add(&Vrf, &mut host).expect("ADD");
    let leave = host.applied().len();
    red("net1").del(&Vrf, &mut host).expect("DEL");
    let steps = host.applied()[leave..].to_vec();
    let restore = steps.iter().position(|step| step.contains("route append")).expect("a route is restored");
    let mut host = machine();
    red("net1").add(&Vrf, &mut host).expect("ADD");
    host.fail_at(host.applied().len() + restore + 1);
    red("net1").del(&Vrf, &mut host).expect("DEL");
    assert!(!host.is_to_fail() && is_routed(MAIN_TABLE, &mut host));
}

#[test]
fn routes_stay_with_an_interface_that_cannot_leave_the_vrf() {
    let mut host = machine();
    red("net1").add(&Vrf, &mut host).expect("ADD");
    let before = host.state();
    host.fail_at(host.applied().len() + 2);
    let (code, text, _) = error_parts(red("net1").del(&Vrf, &mut host).expect_err("a step failed"));
    assert_eq!((code, text.as_str()), (101, "refused by the test: container: link set net1 nomaster"));
    assert_eq!(host.state(), before);
    red("net1").del(&Vrf, &mut host).expect("DEL");
    assert!(is_routed(MAIN_TABLE, &mut host));
}

#[test]
fn an_add_can_be_repeated_and_sets_the_vrf_up() {
    let mut host = machine();
    red("net1").add(&Vrf, &mut host).expect("ADD");
    let after = host.state();
    host.apply(&Step::set_link(Ns::Container, &name("red"), LinkSetting::Down)).expect("down");
    let error = red("net1").check(&Vrf, &mut host).expect_err("down");
    assert_eq!(error.to_string(), "Interface red in the container namespace is down");
    red("net1").add(&Vrf, &mut host).expect("ADD again");
    assert_eq!(host.state(), after);
}

#[test]
fn tables_in_use_and_the_kernels_own_are_not_chosen() {
    let mut host = machine();
    let taken = NewRoute { table: Some(1), ..NewRoute::to("10.7.0.0/16".parse().expect("CIDR")) };
    host.apply(&Step::AddRoute { ns: Ns::Container, name: name("net2"), route: taken }).expect("a route");
    red("net1").add(&Vrf, &mut host).expect("ADD");
    caller("net2", r#""vrfname":"blue""#).add(&Vrf, &mut host).expect("ADD");
    let tables = ["red", "blue"].map(|vrf| link(vrf, &mut host).and_then(|link| link.vrf_table));
    assert_eq!(tables, [Some(2), Some(3)]);
}

#[test]
fn what_cannot_be_done_is_refused() {
    let mut host = machine();
    red("net1").add(&Vrf, &mut host).expect("ADD");
    let (red, table) = (red, |table: u32| format!(r#""vrfname":"red","table":{table}"#));
    for (caller, want) in [
        (caller("net2", &table(9)), (103, "VRF red already exist with different routing table 1")),
        (caller("net2", r#""vrfname":"net1""#), (103, "Netlink net1 is not a VRF")),
        (caller("net1", r#""vrfname":"blue""#), (103, "interface net1 has already a master set: red")),
        (red("net9"), (101, "could not get link by name net9")),
        (caller("net2", r#""vrfname":"""#), (7, "configuration is expected to have a valid vrf name")),
        (
            caller("net2", r#""vrfname":"much-too-long-name""#),
            (7, "configuration is expected to have a valid vrf name"),
        ),
    ] {
        assert_eq!(refused(&caller, &mut host), (want.0, want.1.to_owned()));
    }
    let lonely = red("net2").with_config(r#"{"cniVersion":"1.1.0","name":"n1","type":"vrf","vrfname":"red"}"#);
    assert_eq!(refused(&lonely, &mut host).1, "missing prevResult from earlier plugin");
    let error = error_parts(red("net1").status(&Vrf, &mut machine().without_link_kind("vrf")).expect_err("no kind"));
    assert_eq!((error.0, error.1.as_str()), (50, "this kernel has no links of kind vrf, load their module"));
}

#[test]
fn check_names_what_is_missing() {
    let mut host = machine();
    let error = |caller: &Caller, host: &mut FakeHost| {
        let error = caller.check(&Vrf, host).expect_err("missing");
        (error.code().number(), error.to_string())
    };
    assert_eq!(error(&red("net1"), &mut host), (100, "could not find VRF red: Link not found".to_owned()));
    red("net1").add(&Vrf, &mut host).expect("ADD");
    assert_eq!(error(&red("net2"), &mut host), (100, "failed to find net2 associated to vrf red".to_owned()));
}

#[test]
fn del_takes_the_interface_out_of_its_vrf_whatever_the_configuration_names_by_then() {
    for later in [r#""vrfname":"blue""#, r#""vrfname":"net2""#, r#""vrfname":7"#] {
        let mut host = machine();
        red("net1").add(&Vrf, &mut host).expect("ADD");
        caller("net1", later).del(&Vrf, &mut host).expect("DEL");
        assert_eq!(
            (link("red", &mut host), link("net1", &mut host).and_then(|link| link.master)),
            (None, None),
            "{later}"
        );
    }
}

#[test]
fn del_needs_no_namespace_no_interface_and_no_result_and_leaves_others_alone() {
    let mut host = machine();
    red("net1").add(&Vrf, &mut host).expect("ADD");
    let before = host.state();
    for caller in [caller("net2", r#""vrfname":"net1""#), caller("net2", r#""vrfname":7"#), red("net2")] {
        caller.del(&Vrf, &mut host).expect("DEL");
        assert_eq!(host.state(), before);
    }
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("net1") }).expect("removed");
    let lonely = red("net1").with_config(r#"{"cniVersion":"1.1.0","name":"n1","type":"vrf","vrfname":"red"}"#);
    lonely.del(&Vrf, &mut host).expect("DEL");
    assert_eq!(link("red", &mut host), None);
    host.set_container(NETNS, FakeContainer::Closed);
    lonely.del(&Vrf, &mut host).expect_err("it may be there still");
    host.set_container(NETNS, FakeContainer::Gone);
    lonely.del(&Vrf, &mut host).expect("DEL");
}
