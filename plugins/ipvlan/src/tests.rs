//! The whole life of an ipvlan, on a machine in memory.

use super::*;
use cni_core::version::Version;
use cni_model::plan::{ChildKind, IpvlanMode, Ns};
use cni_testkit::lifecycle::{
    LinkChange, assert_add_is_all_or_nothing, assert_check_compares, assert_del_releases_after_removal,
    assert_del_removes_what_add_made, assert_del_works_with, assert_del_works_without_namespace,
    assert_failed_ipam_is_released,
};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};
use proptest::prelude::*;

const CONFIG: &str = r#"{"cniVersion":"1.1.0","name":"n1","type":"ipvlan","master":"eno1","ipam":{"type":"static"}}"#;

const ANSWER: &str =
    r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"}],"routes":[{"dst":"0.0.0.0/0"}]}"#;

/// The result of a plugin before, which names the master and has the addresses.
const BEFORE: &str = r#""prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"eno1"}],
    "ips":[{"address":"10.1.2.7/24","gateway":"10.1.2.1","interface":0}],"routes":[{"dst":"10.9.0.0/16"}]}"#;

fn with(keys: &str) -> Caller {
    Caller::new("c1", &CONFIG.replace(r#""ipam""#, &format!(r#"{keys},"ipam""#)))
}

fn caller() -> Caller {
    Caller::new("c1", CONFIG)
}

/// Behind another plugin, without IPAM and a master of its own.
fn chained(keys: &str) -> Caller {
    Caller::new("c1", &format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"ipvlan"{keys},{BEFORE}}}"#))
}

/// A machine with the interface `eno1` and two containers.
fn machine() -> FakeHost {
    let containers = ["/run/netns/c1", "/run/netns/c2"];
    let host = FakeHost::new().with_ipam(ANSWER).with_interface("eno1");
    containers.into_iter().fold(host, |host, path| host.with_container(path, FakeContainer::Present(None)))
}

#[test]
fn add_makes_the_link_before_it_asks_for_addresses() {
    let mut host = machine();
    let result = with(r#""mode":"l3s","mtu":9000"#).add(&Ipvlan, &mut host).expect("ADD");
    let want = [
        "container: link add eth0 type ipvlan mode l3s of eno1 on host mtu 9000",
        "delegate ADD to static",
        "container: sysctl net/ipv4/conf/eth0/arp_notify=1",
        "container: sysctl net/ipv6/conf/eth0/ndisc_notify=1",
        "container: addr add 10.1.2.5/24 dev eth0",
        "container: link set eth0 up",
        "container: route add 0.0.0.0/0 via 10.1.2.1 dev eth0",
    ];
    assert_eq!(host.applied(), want);
    let interface = &result.interfaces[0];
    assert_eq!((interface.name.as_str(), interface.mac.as_str()), ("eth0", "02:00:00:00:00:09"));
    assert_eq!(result.ips[0].interface, Some(0));
}

#[test]
fn behind_another_plugin_it_takes_over_its_interface_and_addresses() {
    let mut host = machine();
    let result = chained("").add(&Ipvlan, &mut host).expect("ADD");
    assert_eq!(host.delegated(), [""; 0]);
    assert!(host.applied()[0].ends_with("ipvlan mode l2 of eno1 on host"), "{:?}", host.applied());
    assert!(host.applied().contains(&"container: addr add 10.1.2.7/24 dev eth0".to_owned()));
    assert_eq!((result.interfaces.len(), result.ips[0].interface), (1, Some(0)));
    assert_eq!(result.routes.len(), 1);
    // With an IPAM plugin, the addresses are that one's.
    let mut host = machine();
    chained(r#","ipam":{"type":"static"}"#).add(&Ipvlan, &mut host).expect("ADD");
    assert!(host.applied().contains(&"container: addr add 10.1.2.5/24 dev eth0".to_owned()));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    for (caller, code, text) in [
        (with(r#""mode":"L2""#), 7, r#"unknown ipvlan mode: "L2""#),
        (with(r#""mtu":70000"#), 7, "invalid mtu 70000 (must be at most 65535)"),
        (with(r#""Master":"eno7""#), 7, r#"failed to lookup master "eno7": Link not found"#),
        (with(r#""Master":"""#), 7, "no default route interface found"),
        (
            with(r#""Ipam":{"type":"x"}"#).with_config(&CONFIG.replace("static", "dhcp")),
            7,
            "ipam.type dhcp cannot be used with ipvlan, whose links all have the MAC address of their master",
        ),
        (
            caller().with_config(&CONFIG.replace(r#"{"type":"static"}"#, "{}")),
            7,
            "ipvlan interface requires an IPAM configuration, or a prevResult with addresses",
        ),
        (
            chained("")
                .with_config(&chained("").config.replace(r#"[{"name":"eno1"}]"#, r#"[{"name":"eno1"},{"name":"x"}]"#)),
            7,
            "chained master failure. PrevResult lacks a single named interface",
        ),
        (
            chained("").with_config(&chained("").config.replace(r#"[{"name":"eno1"}]"#, "[]")),
            7,
            "chained master failure. PrevResult lacks a single named interface",
        ),
    ] {
        let mut host = machine();
        assert_eq!(caller.refusal(&Ipvlan, &mut host), (code, text.to_owned()));
        assert_eq!((host.applied().len(), host.delegated().len()), (0, 0), "{text}");
    }
}

/// With the reference, every new link sets the mode of all others on the master.
#[test]
fn another_mode_than_that_of_the_masters_links_is_refused() {
    let mut host = machine();
    let first = caller().after_add(&Ipvlan, &mut host);
    let second = Caller { container: "c2".to_owned(), netns: "/run/netns/c2".to_owned(), ..with(r#""mode":"l3""#) };
    let text = "failed to create ipvlan: eno1 has links in mode l2 already, which mode l3 would change";
    assert_eq!(second.refusal(&Ipvlan, &mut host), (103, text.to_owned()));
    first.check(&Ipvlan, &mut host).expect("the first one is as it was");
    let same = Caller { config: CONFIG.to_owned(), ..second.clone() };
    same.add(&Ipvlan, &mut host).expect("the same mode");
    same.del(&Ipvlan, &mut host).expect("DEL");
    first.del(&Ipvlan, &mut host).expect("DEL");
    second.add(&Ipvlan, &mut host).expect("nobody has another mode any more");
}

#[test]
fn an_ipam_plugin_that_fails_add_is_called_with_del() {
    assert_failed_ipam_is_released(&Ipvlan, machine, &caller());
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Ipvlan, machine, &caller()), 7);
    assert_eq!(assert_add_is_all_or_nothing(&Ipvlan, machine, &chained("")), 6);
}

#[test]
fn del_removes_what_add_made() {
    assert_del_removes_what_add_made(&Ipvlan, &mut machine(), &caller());
    assert_del_removes_what_add_made(&Ipvlan, &mut machine(), &chained(""));
}

/// The reference's DEL fails for ever in most of these cases.
#[test]
fn del_needs_neither_master_default_route_namespace_nor_a_configuration_that_can_be_used() {
    let two = r#""Master":"","prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"a"},{"name":"b"}]}"#;
    let other_family = r#""Master":"","prevResult":{"cniVersion":"0.4.0"}"#;
    let keys =
        [r#""Master":"gone""#, r#""Master":"""#, r#""mode":"zz""#, r#""linkInContainer":true"#, two, other_family];
    assert_del_works_with(&Ipvlan, machine, &caller(), &keys.map(with));
    assert_del_works_without_namespace(&Ipvlan, machine, &caller(), &with(r#""linkInContainer":true,"Master":"""#));
}

#[test]
fn del_releases_the_address_once_the_link_is_removed() {
    assert_del_releases_after_removal(&Ipvlan, machine, &caller());
}

#[test]
fn check_names_what_is_not_as_add_made_it() {
    let changes: &[LinkChange] = &[
        (|link| link.kind = Some("veth".to_owned()), "Interface eth0 does not have link type of ipvlan"),
        (
            |link| link.child = Some(ChildKind::Ipvlan { mode: IpvlanMode::L3 }),
            "Container IPVlan mode l3 does not match expected value: l2",
        ),
        (|link| link.up = false, "Interface eth0 in the container namespace is down"),
    ];
    assert_check_compares(&Ipvlan, machine, &caller(), changes);
}

/// The reference's CHECK fails then, always.
#[test]
fn check_needs_no_master() {
    let mut host = machine();
    let result = chained("").add(&Ipvlan, &mut host).expect("ADD").render(Version::LATEST).expect("text");
    let check = format!(r#"{{"cniVersion":"1.1.0","name":"n1","type":"ipvlan","prevResult":{result}}}"#);
    chained("").with_config(&check).check(&Ipvlan, &mut host).expect("CHECK");
}

#[test]
fn status_names_what_add_could_not_do_without() {
    let mut host = machine();
    caller().status(&Ipvlan, &mut host).expect("STATUS");
    assert_eq!(host.delegated(), ["static STATUS"]);
    let code =
        |caller: &Caller, host: &mut FakeHost| error_parts(caller.status(&Ipvlan, host).expect_err("it could not")).0;
    assert_eq!(code(&caller(), &mut machine().without_link_kind("ipvlan")), 50);
    assert_eq!(code(&with(r#""Master":"eno7""#), &mut machine()), 50);
    host.change_link(Ns::Host, "eno1", |link| link.up = false);
    assert_eq!(code(&caller(), &mut host), 51);
}

#[test]
fn gc_is_the_ipam_plugins() {
    let mut host = machine();
    with(r#""cni.dev/valid-attachments":[]"#).gc(&Ipvlan, &mut host).expect("GC");
    assert_eq!(host.delegated(), ["static GC"]);
}

proptest! {
    /// Every word is a mode or refused by its name, and DEL takes away what ADD made.
    #[test]
    fn any_mode_makes_a_link_that_del_removes_or_is_refused(word in "[a-z0-9]{1,4}|l2|l3|l3s", mtu in -10..70_000_i64) {
        let mut host = machine();
        let before = host.state();
        let caller = with(&format!(r#""mode":"{word}","mtu":{mtu}"#));
        match caller.add(&Ipvlan, &mut host) {
            Ok(_) => prop_assert!(["l2", "l3", "l3s"].contains(&&*word) && mtu <= 65535),
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.contains(&format!("{word:?}")) || message.contains(&mtu.to_string()), "{message}");
                prop_assert_eq!(host.state(), before.clone());
            }
        }
        caller.del(&Ipvlan, &mut host).expect("DEL");
        prop_assert_eq!(host.state(), before);
    }
}
