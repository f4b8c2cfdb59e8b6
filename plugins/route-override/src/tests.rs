//! The life of routes, on a machine in memory.

use cni_core::names::IfName;
use cni_model::link::{Address, Link};
use cni_model::plan::{NewRoute, Ns, Step};
use cni_plugin::host::Host;
use cni_testkit::lifecycle::{assert_add_is_all_or_nothing, assert_del_removes_what_add_made};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};

use super::*;

const NETNS: &str = "/run/netns/c1";
const ALL: &str =
    r#""flushroutes":true,"addroutes":[{"dst":"10.9.0.0/16"},{"dst":"fd09::/64","gw":"fd00::7","mtu":1400}]"#;

fn caller(keys: &str) -> Caller {
    let result = r#"{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}],
        "ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1","interface":0},{"address":"fd00::5/64","gateway":"fd00::1","interface":0}],
        "routes":[{"dst":"0.0.0.0/0"},{"dst":"10.8.0.0/16","gw":"10.1.2.9"},{"dst":"::/0"}]}"#;
    let comma = if keys.is_empty() { "" } else { "," };
    Caller::new(
        "c1",
        &format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"route-override","prevResult":{result}{comma}{keys}}}"#),
    )
}

fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    host.add_link(Ns::Container, Link { name: "eth0".to_owned(), up: true, mtu: 1500, ..Link::default() });
    for cidr in ["10.1.2.5/24", "fd00::5/64"] {
        let cidr = cidr.parse().expect("CIDR");
        host.add_address(Ns::Container, "eth0", Address { cidr, tentative: false, dad_failed: false });
    }
    for (dst, gw) in [("0.0.0.0/0", "10.1.2.1"), ("10.8.0.0/16", "10.1.2.9"), ("::/0", "fd00::1")] {
        let route = NewRoute { gw: Some(gw.parse().expect("an address")), ..NewRoute::to(dst.parse().expect("CIDR")) };
        let name = IfName::parse("eth0").expect("a name");
        host.apply(&Step::AddRoute { ns: Ns::Container, name, route }).expect("a route");
    }
    host.clear_log();
    host
}

/// The routes by a next hop that the container has.
fn routes(host: &mut FakeHost) -> Vec<String> {
    let name = IfName::parse("eth0").expect("a name");
    let (_, routes) = crate::routes::observe(&name, &[], host).expect("routes");
    let shown = routes.iter().filter(|route| route.gateway.is_some()).map(ToString::to_string);
    shown.map(|route| route.split(" dev").next().unwrap_or_default().to_owned()).collect()
}

/// What ADD makes of the container's routes, and of those of the result.
fn added(keys: &str) -> (Vec<String>, Vec<String>) {
    let mut host = machine();
    let result = caller(keys).add(&RouteOverride, &mut host).expect("ADD");
    let reported = result.routes.iter().map(|route| route.dst.to_string()).collect();
    (routes(&mut host), reported)
}

#[test]
fn each_key_changes_its_routes() {
    let texts = |(kernel, result): (Vec<String>, Vec<String>)| (kernel.join(", "), result.join(", "));
    let text = |keys| texts(added(keys));
    let same = |kernel: &str, reported: &str| (kernel.to_owned(), reported.to_owned());
    let before = "0.0.0.0/0 via 10.1.2.1, 10.8.0.0/16 via 10.1.2.9, ::/0 via fd00::1";
    assert_eq!(text(""), same(before, "0.0.0.0/0, 10.8.0.0/16, ::/0"));
    assert_eq!(text(r#""flushroutes":true"#), same("", ""));
    assert_eq!(text(r#""flushgateway":true"#), same("10.8.0.0/16 via 10.1.2.9", "10.8.0.0/16"));
    assert_eq!(
        text(r#""delroutes":[{"dst":"10.8.0.0/16"}]"#),
        same("0.0.0.0/0 via 10.1.2.1, ::/0 via fd00::1", "0.0.0.0/0, ::/0")
    );
    // The kernel's route to the network of an address stays.
    assert_eq!(text(r#""delroutes":[{"dst":"10.1.2.0/24"}]"#).0, before);
    assert_eq!(text(ALL), same("10.9.0.0/16 via 10.1.2.1, fd09::/64 via fd00::7", "10.9.0.0/16, fd09::/64"));
    assert_eq!(text(r#""flushroutes":true,"args":{"cni":{"flushroutes":false}}"#).0, before);
}

#[test]
fn a_flushed_gateway_leaves_the_result_too() {
    let result = caller(r#""flushgateway":true"#).add(&RouteOverride, &mut machine()).expect("ADD");
    assert!(result.ips.iter().all(|ip| ip.gateway.is_none()), "{result:?}");
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&RouteOverride, machine, &caller(ALL)), 1 + 3 + 2);
}

#[test]
fn del_restores_the_former_routes() {
    for keys in
        [ALL, r#""flushgateway":true"#, r#""delroutes":[{"dst":"10.8.0.0/16"}],"addroutes":[{"dst":"10.8.0.0/16"}]"#]
    {
        assert_del_removes_what_add_made(&RouteOverride, &mut machine(), &caller(keys));
    }
}

#[test]
fn a_second_add_changes_nothing_and_del_restores_all() {
    let mut host = machine();
    let before = routes(&mut host);
    caller(ALL).add(&RouteOverride, &mut host).expect("ADD");
    let once = routes(&mut host);
    caller(ALL).add(&RouteOverride, &mut host).expect("ADD again");
    assert_eq!(routes(&mut host), once);
    caller(ALL).del(&RouteOverride, &mut host).expect("DEL");
    assert_eq!(routes(&mut host), before);
}

#[test]
fn check_names_the_route_unless_it_is_skipped() {
    let mut host = machine();
    let message = |keys: &str, host: &mut FakeHost| {
        error_parts(caller(keys).check(&RouteOverride, host).expect_err("a difference"))
    };
    assert_eq!(message(ALL, &mut host).1, "the route to 10.9.0.0/16 on eth0 is missing");
    let (code, text, _) = message(r#""flushgateway":true"#, &mut host);
    assert_eq!((code, text.as_str()), (100, "the route to 0.0.0.0/0 on eth0 is not removed"));
    caller(r#""flushgateway":true,"skipcheck":true"#).check(&RouteOverride, &mut host).expect("skipped");
    caller(ALL).add(&RouteOverride, &mut host).expect("ADD");
    caller(ALL).check(&RouteOverride, &mut host).expect("CHECK");
}

#[test]
fn what_cannot_be_done_is_refused_before_any_change() {
    let refused = |caller: &Caller| {
        let mut host = machine();
        let before = host.state();
        let (code, text, _) = error_parts(caller.add(&RouteOverride, &mut host).expect_err("refused"));
        assert_eq!(host.state(), before);
        (code, text)
    };
    let first = Caller::new("c1", r#"{"cniVersion":"1.1.0","name":"n1","type":"route-override"}"#);
    let no_result = "Required prevResult missing: route-override must follow the plugin that makes the interface";
    assert_eq!(refused(&first), (7, no_result.to_owned()));
    assert_eq!(
        refused(&caller(r#""addroutes":[{"dst":"10.9.0.0/16","priority":-1}]"#)),
        (7, "addroutes: route to 10.9.0.0/16".to_owned())
    );
    let other = Caller { ifname: "net1".to_owned(), ..caller(ALL) };
    assert_eq!(refused(&other).1, "Cannot find network interface net1: Link not found");
}
