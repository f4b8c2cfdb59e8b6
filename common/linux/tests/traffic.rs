//! Limits and redirects against the real kernel: each is made, and taken back by the step that it returns. What other
//! programs make beside them is made by `tc`.

use std::process::Command;

use cni_core::names::IfName;
use cni_linux::host::LinuxHost;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Step, VethPeer};
use cni_model::traffic::{FilterRank, RootQdisc, Shaper, TrafficControl};
use cni_plugin::host::Host;
use nix::sched::{CloneFlags, unshare};

const CONFIG: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"bandwidth"}"#;

const SLOW: Shaper = Shaper { rate: 1_000_000, limit: 35_000, buffer: 156_250 };
const FAST: Shaper = Shaper { rate: 5_000_000_000, limit: 137_500_000, buffer: 39_062 };

/// Moves the thread of the test into a new namespace, with the veth `d0` and the ifbs `i0` and `i1` in it.
fn host() -> Box<dyn Host> {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    let mut host: Box<dyn Host> = Box::new(LinuxHost::new(&cni_testkit::request("ADD", &[], CONFIG)));
    let peer = VethPeer { ns: Ns::Host, name: name("d1"), mac: "02:00:00:00:00:03".parse().expect("a MAC address") };
    for (new, kind) in [("d0", LinkKind::Veth { peer }), ("i0", LinkKind::Ifb), ("i1", LinkKind::Ifb)] {
        let link = NewLink { name: name(new), mac: None, mtu: None, if_present: IfPresent::Refuse, kind };
        host.apply(&Step::CreateLink { ns: Ns::Host, link }).expect("a link");
        host.apply(&Step::set_link(Ns::Host, &name(new), LinkSetting::Up)).expect("up");
    }
    host
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

fn tc(arguments: &str) {
    let status = Command::new("tc").args(arguments.split(' ')).status().expect("tc runs");
    assert!(status.success(), "tc {arguments}");
}

fn said(arguments: &str) -> String {
    let output = Command::new("tc").args(arguments.split(' ')).output().expect("tc runs");
    String::from_utf8(output.stdout).expect("text")
}

fn index(host: &mut dyn Host, link: &str) -> u32 {
    host.link(Ns::Host, &name(link)).expect("an answer").expect("a link").index
}

fn d0(host: &mut dyn Host) -> TrafficControl {
    let link = index(host, "d0");
    host.devices().traffic_control(Ns::Host, link).expect("an answer")
}

fn shape(shaper: Shaper) -> Step {
    Step::SetShaper { ns: Ns::Host, name: name("d0"), shaper }
}

fn redirect(to: &str) -> Step {
    Step::AddRedirect { ns: Ns::Host, name: name("d0"), to: name(to), rank: FilterRank::First }
}

fn end_redirect(to: &str) -> Step {
    Step::RemoveRedirect { ns: Ns::Host, name: name("d0"), to: name(to) }
}

/// Between a listing and a look at one of its links, a container may end.
#[test]
fn a_link_that_is_gone_has_no_traffic_control() {
    let mut host = host();
    let d0 = index(&mut *host, "d0");
    host.apply(&Step::RemoveLink { ns: Ns::Host, name: name("d0") }).expect("removed");
    let seen = host.devices().traffic_control(Ns::Host, d0).expect("an answer");
    assert_eq!(seen, TrafficControl { root: None, redirects: Vec::new() });
    assert!(host.apply(&shape(SLOW)).is_err(), "nothing can be limited");
}

#[test]
fn a_limit_is_set_changed_and_undone() {
    let mut host = host();
    assert_eq!(d0(host.as_mut()), TrafficControl::default());
    let undo = host.apply(&shape(SLOW)).expect("set").expect("a change");
    assert_eq!(d0(host.as_mut()).root, Some(RootQdisc::Shaper(SLOW)));
    assert_eq!(host.apply(&shape(SLOW)).expect("set again"), None);
    assert_eq!(host.apply(&shape(FAST)).expect("changed"), Some(shape(SLOW)));
    assert_eq!(d0(host.as_mut()).root, Some(RootQdisc::Shaper(FAST)));
    for _ in 0..2 {
        host.apply(&undo).expect("taken back");
        assert_eq!(d0(host.as_mut()), TrafficControl::default());
    }
}

#[test]
fn a_value_that_the_kernel_refuses_changes_nothing() {
    let mut host = host();
    for before in [None, Some(RootQdisc::Shaper(SLOW))] {
        host.apply(&shape(Shaper { rate: 0, ..FAST })).expect_err("no rate at all");
        assert_eq!(d0(host.as_mut()).root, before);
        host.apply(&shape(SLOW)).expect("set");
    }
}

#[test]
fn the_discipline_of_somebody_else_stays() {
    let mut host = host();
    tc("qdisc add dev d0 root handle 7: pfifo");
    let other = Some(RootQdisc::Other { kind: "pfifo".to_owned() });
    assert_eq!(d0(host.as_mut()).root, other);
    let error = host.apply(&shape(SLOW)).expect_err("taken");
    assert_eq!((error.code().number(), error.to_string()), (103, "create qdisc: file exists".to_owned()));
    host.apply(&Step::RemoveShaper { ns: Ns::Host, name: name("d0") }).expect("nothing to remove");
    assert_eq!(d0(host.as_mut()).root, other);
}

#[test]
fn a_redirect_is_made_and_undone() {
    let mut host = host();
    let i0 = index(host.as_mut(), "i0");
    let undo = host.apply(&redirect("i0")).expect("made");
    assert_eq!(undo, Some(end_redirect("i0")));
    assert_eq!(d0(host.as_mut()).redirects, [i0]);
    assert_eq!(host.apply(&redirect("i0")).expect("made again"), None);
    host.apply(&end_redirect("i1")).expect("not this one");
    assert_eq!(d0(host.as_mut()).redirects, [i0]);
    for _ in 0..2 {
        host.apply(&end_redirect("i0")).expect("ended");
        assert_eq!(d0(host.as_mut()), TrafficControl::default());
    }
    tc("qdisc add dev d0 ingress");
}

/// As a DEL of the reference leaves it.
#[test]
fn a_redirect_to_a_link_that_is_gone_is_seen_and_replaced() {
    let mut host = host();
    host.apply(&redirect("i0")).expect("made");
    host.apply(&Step::RemoveLink { ns: Ns::Host, name: name("i0") }).expect("gone");
    assert_eq!(d0(host.as_mut()).redirects, [0]);
    host.apply(&redirect("i1")).expect("made");
    let i1 = index(host.as_mut(), "i1");
    assert_eq!(d0(host.as_mut()).redirects, [i1]);
    host.apply(&Step::RemoveLink { ns: Ns::Host, name: name("i1") }).expect("gone");
    host.apply(&end_redirect("i1")).expect("ended");
    assert_eq!(d0(host.as_mut()), TrafficControl::default());
}

#[test]
fn filters_of_others_stay_where_they_are() {
    for place in ["clsact", "ingress"] {
        let mut host = host();
        let i0 = index(host.as_mut(), "i0");
        tc(&format!("qdisc add dev d0 {place}"));
        let parent = if place == "clsact" { "ingress" } else { "parent ffff:" };
        tc(&format!("filter add dev d0 {parent} protocol ip prio 1 u32 match ip dst 192.0.2.1 flowid 1:1"));
        host.apply(&redirect("i0")).expect("made");
        assert_eq!(d0(host.as_mut()).redirects, [i0], "{place}");
        host.apply(&end_redirect("i0")).expect("ended");
        assert_eq!(d0(host.as_mut()), TrafficControl::default());
        tc(&format!("filter del dev d0 {parent} protocol ip prio 1 u32"));
    }
}

#[test]
fn a_link_that_is_gone_has_no_traffic() {
    let mut host = host();
    let gone = name("gone");
    host.apply(&Step::RemoveShaper { ns: Ns::Host, name: gone.clone() }).expect("nothing to remove");
    host.apply(&Step::RemoveRedirect { ns: Ns::Host, name: gone.clone(), to: gone.clone() }).expect("nothing to end");
    for step in [
        Step::SetShaper { ns: Ns::Host, name: gone.clone(), shaper: SLOW },
        Step::AddRedirect { ns: Ns::Host, name: gone.clone(), to: gone, rank: FilterRank::First },
        redirect("gone"),
    ] {
        let error = host.apply(&step).expect_err("no link");
        assert_eq!(error.to_string(), r#"there is no link "gone" in the host namespace"#);
    }
}

#[test]
fn a_last_redirect_comes_after_the_filters_of_others_and_leaves_their_discipline() {
    for (place, parent) in [("clsact", "ingress"), ("ingress", "parent ffff:")] {
        let mut host = host();
        let last = Step::AddRedirect { ns: Ns::Host, name: name("d0"), to: name("i0"), rank: FilterRank::Last };
        tc(&format!("qdisc add dev d0 {place}"));
        let undo = host.apply(&last).expect("made").expect("a change");
        let shown = said(&format!("filter show dev d0 {parent}"));
        assert!(shown.contains("pref 49151 u32") && !shown.contains("flowid 1:1"), "{shown}");
        host.apply(&undo).expect("taken back");
        assert_eq!(said(&format!("filter show dev d0 {parent}")), "");
        assert!(said("qdisc show dev d0").contains(place), "an empty {place} stays");
    }
}

#[test]
fn a_last_redirect_that_is_alone_is_as_the_kernel_places_it() {
    let mut host = host();
    let last = Step::AddRedirect { ns: Ns::Host, name: name("d0"), to: name("i0"), rank: FilterRank::Last };
    host.apply(&last).expect("made");
    let shown = said("filter show dev d0 ingress");
    assert!(shown.contains("pref 49152 u32") && !shown.contains("flowid 1:1"), "{shown}");
    host.apply(&end_redirect("i0")).expect("ended");
    assert!(!said("qdisc show dev d0").contains("ingress"), "the discipline was made for it");
}

#[test]
fn this_kernel_has_what_redirects_need_and_nothing_is_left_of_the_trial() {
    let mut host = host();
    assert_eq!(host.devices().missing_redirect_part().expect("tried"), None);
    assert!(!said("qdisc show").contains("ingress"));
}
