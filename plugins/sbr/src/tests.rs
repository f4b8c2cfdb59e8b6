//! The life of tables and rules, on a machine in memory.

use super::*;
use cni_core::names::IfName;
use cni_model::link::{Address, Link};
use cni_model::plan::{NewRoute, Ns, Step};
use cni_model::routing::{FullRoute, MAIN_TABLE, SourceRule};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::json_record::JsonRecord as _;
use cni_testkit::lifecycle::{assert_add_is_all_or_nothing, assert_del_removes_what_add_made};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};

const NETNS: &str = "/run/netns/c1";

const DUAL: &str = r#"[{"address":"192.168.1.209/24","gateway":"192.168.1.1","interface":1},
    {"address":"fd00::209/64","gateway":"fd00::1","interface":1}]"#;

fn caller(ips: &str, keys: &str) -> Caller {
    let comma = if keys.is_empty() { "" } else { "," };
    let interfaces = r#"[{"name":"eth0","sandbox":"/run/netns/c1"},{"name":"net1","sandbox":"/run/netns/c1"}]"#;
    let result = format!(r#"{{"cniVersion":"1.1.0","interfaces":{interfaces},"ips":{ips}}}"#);
    let config = format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"sbr","prevResult":{result}{comma}{keys}}}"#);
    Caller { ifname: "net1".to_owned(), ..Caller::new("c1", &config) }
}

fn dual() -> Caller {
    caller(DUAL, "")
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

fn route(dst: &str, gw: Option<&str>) -> NewRoute {
    let gw = gw.map(|gw| gw.parse().expect("an address"));
    NewRoute { gw, ..NewRoute::to(dst.parse().expect("CIDR")) }
}

/// A container whose `net1` has two addresses, a route by a router of each network, and one by a router elsewhere.
fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None));
    host.enter(NETNS).expect("entered");
    for (link, addresses) in
        [("eth0", &["10.1.2.5/24"][..]), ("net1", &["192.168.1.209/24", "fd00::209/64", "fe80::1/64"])]
    {
        host.add_link(Ns::Container, Link { name: link.to_owned(), up: true, mtu: 1500, ..Link::default() });
        for cidr in addresses {
            let cidr = cidr.parse().expect("CIDR");
            host.add_address(Ns::Container, link, Address { cidr, tentative: false, dad_failed: false });
        }
    }
    let elsewhere = NewRoute { onlink: true, ..route("192.168.9.0/24", Some("172.16.0.1")) };
    for route in [route("192.168.2.0/24", Some("192.168.1.2")), route("fd00:5::/64", Some("fd00::1")), elsewhere] {
        host.apply(&Step::AddRoute { ns: Ns::Container, name: name("net1"), route }).expect("a route");
    }
    host.clear_log();
    host
}

/// The routes of a table, and those of `net1` in the main one, as `destination` or `destination via next hop`.
fn routes(table: u32, host: &mut FakeHost) -> Vec<String> {
    let net1 = (host as &mut dyn Host).link(Ns::Container, &name("net1")).expect("links").expect("net1").index;
    let all = cni_core::family::Family::ALL
        .into_iter()
        .flat_map(|family| host.routing().full_routes(Ns::Container, family, table).expect("routes"));
    let of_net1 = all.filter(|route: &FullRoute| route.link == net1);
    of_net1.map(|route| route.to_string().split(" dev").next().unwrap_or_default().to_owned()).collect()
}

fn rules(host: &FakeHost) -> Vec<String> {
    let start = format!("{NETNS} rule ");
    host.state().iter().filter_map(|line| line.strip_prefix(&start).map(str::to_owned)).collect()
}

fn refused(caller: &Caller) -> (u32, String) {
    let mut host = machine();
    let before = host.state();
    let (code, text, _) = error_parts(caller.add(&Sbr, &mut host).expect_err("refused"));
    assert_eq!(host.state(), before);
    (code, text)
}

#[test]
fn each_address_has_a_table_with_the_routes_of_its_network() {
    let mut host = machine();
    let result = dual().add(&Sbr, &mut host).expect("ADD");
    assert_eq!(Some(result), dual().request(&Sbr, "ADD").prev_result().expect("a result"));
    assert_eq!(rules(&host), ["from 192.168.1.209/32 lookup 100", "from fd00::209/128 lookup 101"]);
    let want = ["192.168.1.0/24", "192.168.2.0/24 via 192.168.1.2", "0.0.0.0/0 via 192.168.1.1"];
    assert_eq!(routes(100, &mut host), want);
    assert_eq!(routes(101, &mut host), ["fd00::/64", "fd00:5::/64 via fd00::1", "::/0 via fd00::1"]);
    assert_eq!(routes(MAIN_TABLE, &mut host), ["192.168.9.0/24 via 172.16.0.1", "fe80::/64"]);
    dual().check(&Sbr, &mut host).expect("CHECK");
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Sbr, machine, &dual()), 1 + 6 + 2 + 4);
    assert_eq!(assert_add_is_all_or_nothing(&Sbr, machine, &caller(DUAL, r#""table":5000"#)), 3);
}

#[test]
fn del_removes_what_add_made() {
    for keys in ["", r#""table":5000"#] {
        assert_del_removes_what_add_made(&Sbr, &mut machine(), &caller(DUAL, keys));
    }
}

#[test]
fn a_table_that_is_named_is_the_administrators() {
    let mut host = machine();
    let caller = caller(DUAL, r#""table":5000"#);
    for _ in 0..2 {
        caller.add(&Sbr, &mut host).expect("ADD");
    }
    assert_eq!(rules(&host), ["from 192.168.1.209/32 lookup 5000", "from fd00::209/128 lookup 5000"]);
    assert_eq!(routes(5000, &mut host), [""; 0]);
    assert_eq!(routes(MAIN_TABLE, &mut host).len(), 6);
    caller.check(&Sbr, &mut host).expect("CHECK");
}

#[test]
fn an_add_can_be_repeated() {
    let mut host = machine();
    let before = host.state();
    dual().add(&Sbr, &mut host).expect("ADD");
    let after = host.state();
    dual().add(&Sbr, &mut host).expect("ADD again");
    assert_eq!(host.state(), after);
    dual().del(&Sbr, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn a_table_that_is_in_use_is_passed_over() {
    let mut host = machine();
    let ns = Ns::Container;
    let rule = SourceRule { source: "10.1.2.5/32".parse().expect("CIDR"), table: 100, priority: None };
    host.apply(&Step::AddRule { ns, rule }).expect("a rule");
    let taken = NewRoute { table: Some(101), ..route("10.7.0.0/16", None) };
    host.apply(&Step::AddRoute { ns, name: name("eth0"), route: taken }).expect("a route");
    dual().add(&Sbr, &mut host).expect("ADD");
    let own = |rule: &String| rule.contains("192.168.1.209") || rule.contains("fd00::209");
    let rules: Vec<String> = rules(&host).into_iter().filter(own).collect();
    assert_eq!(rules, ["from 192.168.1.209/32 lookup 102", "from fd00::209/128 lookup 103"]);
}

#[test]
fn an_address_without_a_gateway_has_that_of_the_default_route() {
    let mut host = machine();
    let ips = r#"[{"address":"192.168.1.209/24"}],"routes":[{"dst":"0.0.0.0/0","gw":"192.168.1.3"},{"dst":"::/0"}]"#;
    caller(ips, "").add(&Sbr, &mut host).expect("ADD");
    assert!(routes(100, &mut host).contains(&"0.0.0.0/0 via 192.168.1.3".to_owned()));
    assert!(routes(MAIN_TABLE, &mut host).contains(&"fd00::/64".to_owned()), "no IPv6 address was told");
}

#[test]
fn what_cannot_be_told_is_refused() {
    let of = |index: &str| format!(r#"[{{"address":"192.168.1.209/24","interface":{index}}}]"#);
    let none = "No IP addresses supplied on interface: net1";
    let index = |index: &str| {
        format!("address 192.168.1.209/24 of prevResult has the interface index {index}, and there are 2 interfaces")
    };
    for (ips, want) in
        [("[]".to_owned(), none.to_owned()), (of("0"), none.to_owned()), (of("2"), index("2")), (of("-1"), index("-1"))]
    {
        assert_eq!(refused(&caller(&ips, "")), (7, want));
        caller(&ips, "").del(&Sbr, &mut machine()).expect("DEL");
    }
    for table in ["0", "-1", "4294967296"] {
        let keys = format!(r#""table":{table}"#);
        let want = format!("invalid table {table} (must be between 1 and 4294967295)");
        assert_eq!(refused(&caller(DUAL, &keys)), (7, want.clone()));
        let error = caller(DUAL, &keys).status(&Sbr, &mut machine()).expect_err("refused");
        assert_eq!(error.to_string(), want);
        caller(DUAL, &keys).del(&Sbr, &mut machine()).expect("DEL");
    }
    for (gateways, want) in [
        (r#""192.168.1""#, r#"invalid gateway "192.168.1" in gateways: it must be the IP address of a router"#),
        (r#""::""#, r#"invalid gateway "::" in gateways: it must be the IP address of a router"#),
        (r#""fd00::1","192.168.1.1","192.168.1.2""#, "gateways has more than one IPv4 address"),
        (r#""fd00::1","fd00::1""#, "gateways has more than one IPv6 address"),
    ] {
        let caller = caller(DUAL, &format!(r#""gateways":[{gateways}]"#));
        assert_eq!(refused(&caller), (7, want.to_owned()));
        let error = caller.status(&Sbr, &mut machine()).expect_err("refused");
        assert_eq!((error.code().number(), error.to_string().as_str()), (7, want));
        caller.del(&Sbr, &mut machine()).expect("DEL");
    }
    let missing = Caller { ifname: "net9".to_owned(), ..caller(r#"[{"address":"192.168.1.209/24"}]"#, "") };
    assert_eq!(refused(&missing), (101, "Cannot find network interface net9: Link not found".to_owned()));
    let lonely = Caller::new("c1", r#"{"cniVersion":"1.1.0","name":"n1","type":"sbr"}"#);
    assert_eq!(refused(&lonely), (7, "This plugin must be called as chained plugin".to_owned()));
    lonely.del(&Sbr, &mut machine()).expect("DEL");
}

#[test]
fn del_needs_no_namespace_and_no_interface() {
    for container in [FakeContainer::Gone, FakeContainer::Present(None)] {
        let mut host = machine();
        dual().add(&Sbr, &mut host).expect("ADD");
        host.set_container(NETNS, container);
        for netns in ["", NETNS] {
            Caller { netns: netns.to_owned(), ..dual() }.del(&Sbr, &mut host).expect("DEL");
        }
        assert_eq!(host.records.len(), 0);
    }
    let mut host = machine();
    dual().add(&Sbr, &mut host).expect("ADD");
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: name("net1") }).expect("removed");
    dual().del(&Sbr, &mut host).expect("DEL");
    assert_eq!((rules(&host), host.records.len()), (Vec::new(), 0));
    host.set_container(NETNS, FakeContainer::Closed);
    dual().del(&Sbr, &mut host).expect_err("it may be there still");
}

/// The record alone says which routes were in the main table.
#[test]
fn whatever_step_of_del_fails_the_next_del_restores_everything() {
    for step in 1.. {
        let mut host = machine();
        let before = host.state();
        dual().add(&Sbr, &mut host).expect("ADD");
        host.fail_at(host.applied().len() + step);
        let deleted = dual().del(&Sbr, &mut host);
        if host.is_to_fail() {
            assert_eq!((step, deleted.is_ok()), (14, true), "4 routes restored, 6 removed, 2 rules, and the record");
            break;
        }
        let (code, text, _) = error_parts(deleted.expect_err("a step failed"));
        assert!(code == 101 && text.starts_with("refused by the test"), "{code} {text}");
        dual().del(&Sbr, &mut host).expect("DEL again");
        assert_eq!(host.state(), before, "DEL failed at step {step}");
    }
}

#[test]
fn a_del_that_cannot_enter_the_namespace_keeps_the_record() {
    let mut host = machine();
    let before = host.state();
    dual().add(&Sbr, &mut host).expect("ADD");
    host.set_container(NETNS, FakeContainer::Closed);
    dual().del(&Sbr, &mut host).expect_err("it may be there still");
    host.set_container(NETNS, FakeContainer::Present(None));
    dual().del(&Sbr, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

/// As after an ADD of the reference, which writes nothing down.
#[test]
fn without_a_record_del_removes_the_rules_of_the_interfaces_addresses() {
    let mut host = machine();
    dual().add(&Sbr, &mut host).expect("ADD");
    host.records.write(&crate::record::RoutingRecord::key(&dual().attachment(&Sbr)), "{");
    let other = SourceRule { source: "10.1.2.5/32".parse().expect("CIDR"), table: 100, priority: None };
    host.apply(&Step::AddRule { ns: Ns::Container, rule: other }).expect("a rule");
    let lonely = dual().with_config(r#"{"cniVersion":"1.1.0","name":"n1","type":"sbr"}"#);
    lonely.del(&Sbr, &mut host).expect("DEL");
    assert_eq!(rules(&host), ["from 10.1.2.5/32 lookup 100"]);
}

/// As over an ADD of the reference, or one whose record was lost.
#[test]
fn del_removes_the_rules_that_an_add_found_which_nobody_wrote_down() {
    for keys in ["", r#""table":5000"#] {
        let (mut host, caller) = (machine(), caller(DUAL, keys));
        for (source, table) in [("192.168.1.209/32", 50), ("10.1.2.5/32", 5000), ("192.168.1.209/32", 254)] {
            let rule = SourceRule { source: source.parse().expect("CIDR"), table, priority: None };
            host.apply(&Step::AddRule { ns: Ns::Container, rule }).expect("a rule");
        }
        let before = rules(&host);
        caller.add(&Sbr, &mut host).expect("ADD");
        let after = rules(&host);
        for _ in 0..2 {
            host.records.write(&crate::record::RoutingRecord::key(&caller.attachment(&Sbr)), "{");
            caller.add(&Sbr, &mut host).expect("ADD");
            assert_eq!(rules(&host), after);
        }
        caller.add(&Sbr, &mut host).expect("ADD with a record");
        caller.del(&Sbr, &mut host).expect("DEL");
        assert_eq!((rules(&host), host.records.len()), (before, 0));
    }
}

/// It was added by others after the ADD that recorded its own.
#[test]
fn a_rule_that_is_not_in_the_record_stays() {
    let mut host = machine();
    dual().add(&Sbr, &mut host).expect("ADD");
    let rule = SourceRule { source: "192.168.1.209/32".parse().expect("CIDR"), table: 200, priority: Some(7) };
    host.apply(&Step::AddRule { ns: Ns::Container, rule }).expect("a rule");
    dual().add(&Sbr, &mut host).expect("ADD again");
    dual().del(&Sbr, &mut host).expect("DEL");
    assert_eq!(rules(&host), ["from 192.168.1.209/32 lookup 200 priority 7"]);
}

#[test]
fn check_names_what_is_missing() {
    let ns = Ns::Container;
    let rule = SourceRule { source: "fd00::209/128".parse().expect("CIDR"), table: 101, priority: None };
    let mut host = machine();
    dual().add(&Sbr, &mut host).expect("ADD");
    let net1 = (&mut host as &mut dyn Host).link(ns, &name("net1")).expect("links").expect("net1").index;
    let default = FullRoute::default_by([192, 168, 1, 1].into(), net1, 100);
    for (step, text) in [
        (Step::RemoveRule { ns, rule }, "Failed to find the rule from fd00::209: its packets do not leave by net1"),
        (Step::RemoveFullRoute { ns, route: default }, "Failed to find the default route by 192.168.1.1 in table 100"),
    ] {
        host.apply(&step).expect("removed");
        let error = dual().check(&Sbr, &mut host).expect_err(text);
        assert_eq!((error.code().number(), error.to_string()), (100, text.to_owned()));
    }
    let error = caller(DUAL, r#""table":7"#).check(&Sbr, &mut host).expect_err("another table");
    assert_eq!(error.code().number(), 100);
}

#[test]
fn gc_removes_the_records_of_attachments_that_are_not_valid() {
    let mut host = machine();
    dual().add(&Sbr, &mut host).expect("ADD");
    let gc = |container: &str, host: &mut FakeHost| {
        let valid = format!(r#""cni.dev/valid-attachments":[{{"containerID":"{container}","ifname":"net1"}}]"#);
        caller(DUAL, &valid).gc(&Sbr, host).expect("GC");
        host.records.len()
    };
    assert_eq!((gc("c1", &mut host), gc("c2", &mut host)), (1, 0));
}

/// A process that is killed takes nothing back.
#[test]
fn del_removes_what_an_add_left_that_was_killed_before_any_step() {
    for step in 1.. {
        let mut host = machine();
        let before = host.state();
        host.fail_at(step);
        let added = Sbr.add(&dual().request(&Sbr, "ADD"), &mut Journal::new(&mut host));
        if added.is_ok() {
            assert_eq!(step, 14);
            break;
        }
        dual().del(&Sbr, &mut host).expect("DEL");
        assert_eq!(host.state(), before, "killed before step {step}");
    }
}

#[test]
fn a_configured_gateway_replaces_every_other_of_its_family() {
    let mut host = machine();
    let other = route("0.0.0.0/0", Some("192.168.1.1"));
    host.apply(&Step::AddRoute { ns: Ns::Container, name: name("net1"), route: other }).expect("a route");
    let before = host.state();
    let caller = caller(DUAL, r#""gateways":["192.168.1.254"]"#);
    caller.add(&Sbr, &mut host).expect("ADD");
    let defaults = |host: &mut FakeHost, table| {
        let all = routes(table, host).into_iter();
        all.filter(|route| route.contains("/0")).collect::<Vec<_>>()
    };
    assert_eq!(defaults(&mut host, 100), ["0.0.0.0/0 via 192.168.1.254"]);
    assert_eq!(defaults(&mut host, 101), ["::/0 via fd00::1"]);
    caller.check(&Sbr, &mut host).expect("CHECK");
    let error = dual().check(&Sbr, &mut host).expect_err("another gateway");
    assert_eq!(error.to_string(), "Failed to find the default route by 192.168.1.1 in table 100");
    caller.del(&Sbr, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
}

#[test]
fn with_source_hints_the_main_table_keeps_the_networks_with_their_addresses() {
    let mut host = machine();
    let before = host.state();
    let hints = caller(DUAL, r#""addSourceHints":true"#);
    let sourced = |host: &mut FakeHost| {
        let all = [cni_core::family::Family::V4, cni_core::family::Family::V6]
            .into_iter()
            .flat_map(|family| host.routing().full_routes(Ns::Container, family, MAIN_TABLE).expect("routes"));
        let all: Vec<_> = all.filter_map(|route| Some(format!("{} {}", route.dst, route.source?))).collect();
        all
    };
    for _ in 0..2 {
        hints.add(&Sbr, &mut host).expect("ADD");
        assert_eq!(sourced(&mut host), ["10.1.2.0/24 10.1.2.5", "192.168.1.0/24 192.168.1.209", "fd00::/64 fd00::209"]);
        let kept = ["192.168.1.0/24", "192.168.9.0/24 via 172.16.0.1", "fd00::/64", "fe80::/64"];
        let mut main = routes(MAIN_TABLE, &mut host);
        main.sort();
        assert_eq!(main, kept);
        hints.check(&Sbr, &mut host).expect("CHECK");
    }
    dual().add(&Sbr, &mut host).expect("ADD without hints");
    let error = hints.check(&Sbr, &mut host).expect_err("no hint");
    let want = "Failed to find the route to 192.168.1.0/24 with a source address in the main table";
    assert_eq!((error.code().number(), error.to_string().as_str()), (100, want));
    dual().del(&Sbr, &mut host).expect("DEL");
    assert_eq!(host.state(), before);
    assert_add_is_all_or_nothing(&Sbr, machine, &hints);
}
