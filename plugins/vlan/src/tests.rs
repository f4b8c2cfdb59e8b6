//! The whole life of a link in a VLAN, on a machine in memory.

use super::*;
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, Ns};
use cni_plugin::host::Host;
use cni_testkit::lifecycle::{
    LinkChange, assert_add_is_all_or_nothing, assert_check_compares, assert_del_releases_after_removal,
    assert_del_removes_what_add_made, assert_del_works_with, assert_del_works_without_namespace,
    assert_failed_ipam_is_released,
};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};
use proptest::prelude::*;

const CONFIG: &str =
    r#"{"cniVersion":"1.1.0","name":"n1","type":"vlan","master":"eno1","vlanId":5,"ipam":{"type":"static"}}"#;

const ANSWER: &str =
    r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"}],"routes":[{"dst":"0.0.0.0/0"}]}"#;

fn with(keys: &str) -> Caller {
    Caller::new("c1", &CONFIG.replace(r#""ipam""#, &format!(r#"{keys},"ipam""#)))
}

fn caller() -> Caller {
    Caller::new("c1", CONFIG)
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
    let result = with(r#""mtu":1400"#).add(&Vlan, &mut host).expect("ADD");
    let want = [
        "container: link add eth0 type vlan id 5 of eno1 on host mtu 1400",
        "delegate ADD to static",
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
fn what_cannot_be_is_refused_before_anything_is_done() {
    let required = r#""master" field is required. It specifies the host interface name to create the VLAN for"#;
    for (keys, code, text) in [
        (r#""Master":"""#, 7, required),
        (r#""VlanID":4095"#, 7, "invalid VLAN ID 4095 (must be between 0 and 4094 inclusive)"),
        (r#""VlanID":-1"#, 7, "invalid VLAN ID -1 (must be between 0 and 4094 inclusive)"),
        (r#""VlanID":65541"#, 7, "invalid VLAN ID 65541 (must be between 0 and 4094 inclusive)"),
        (r#""mtu":1501"#, 7, "invalid MTU 1501, must be [0, master MTU(1500)]"),
        (r#""mtu":-100"#, 7, "invalid MTU -100, must be [0, master MTU(1500)]"),
        (r#""Master":"eno7""#, 7, r#"failed to lookup master "eno7": Link not found"#),
    ] {
        let mut host = machine();
        assert_eq!(with(keys).refusal(&Vlan, &mut host), (code, text.to_owned()), "{keys}");
        assert_eq!((host.applied().len(), host.delegated().len()), (0, 0), "{keys}");
    }
    let without_ipam = Caller::new("c1", &CONFIG.replace(r#"{"type":"static"}"#, "{}"));
    let text = "vlan interface requires an IPAM configuration";
    assert_eq!(without_ipam.refusal(&Vlan, &mut machine()), (7, text.to_owned()));
    assert_eq!(error_parts(without_ipam.status(&Vlan, &mut machine()).expect_err("refused")).1, text);
}

#[test]
fn a_master_that_is_down_is_named() {
    let mut host = machine();
    host.change_link(Ns::Host, "eno1", |link| link.up = false);
    let text = r#"failed to create vlan: network is down: its master "eno1" is down"#;
    assert_eq!(caller().refusal(&Vlan, &mut host), (11, text.to_owned()));
    assert_eq!(host.applied(), [""; 0]);
}

#[test]
fn the_link_that_has_the_vlan_already_is_named_if_it_is_visible() {
    let mut host = machine();
    let eno1 = (&mut host as &mut dyn Host).link(Ns::Host, &IfName::parse("eno1").expect("a name"));
    let peer = eno1.expect("an answer").map(|link| link.index);
    let (kind, child) = (Some("vlan".to_owned()), Some(ChildKind::Vlan { id: 5 }));
    host.add_link(Ns::Host, Link { name: "eno1.5".to_owned(), kind, child, peer, ..Link::default() });
    let error = error_parts(caller().add(&Vlan, &mut host).expect_err("taken"));
    let details = "VLAN 5 of eno1 has the link eno1.5 beside it, and can have one alone";
    assert_eq!(error, (103, "failed to create vlan: file exists".to_owned(), details.to_owned()));
    with(r#""VlanId":6"#).add(&Vlan, &mut host).expect("another VLAN");

    let mut host = machine();
    caller().add(&Vlan, &mut host).expect("ADD");
    let second = Caller::new("c2", CONFIG);
    assert!(second.refusal(&Vlan, &mut host).1.contains("file exists"), "another container has it");
}

#[test]
fn an_ipam_plugin_that_fails_add_is_called_with_del() {
    assert_failed_ipam_is_released(&Vlan, machine, &caller());
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Vlan, machine, &caller()), 5);
}

#[test]
fn del_removes_what_add_made() {
    assert_del_removes_what_add_made(&Vlan, &mut machine(), &caller());
}

/// The reference's DEL fails for ever in each of these cases.
#[test]
fn del_needs_neither_master_namespace_nor_a_configuration_that_can_be_used() {
    let keys =
        [r#""Master":"gone""#, r#""Master":"""#, r#""VlanId":9999"#, r#""mtu":9000"#, r#""linkInContainer":true"#];
    assert_del_works_with(&Vlan, machine, &caller(), &keys.map(with));
    assert_del_works_without_namespace(&Vlan, machine, &caller(), &with(r#""linkInContainer":true"#));
}

#[test]
fn del_releases_the_address_once_the_link_is_removed() {
    assert_del_releases_after_removal(&Vlan, machine, &caller());
}

#[test]
fn check_names_what_is_not_as_add_made_it() {
    let changes: &[LinkChange] = &[
        (|link| link.kind = Some("veth".to_owned()), "Interface eth0 does not have link type of vlan"),
        (|link| link.child = Some(ChildKind::Vlan { id: 6 }), "Interface eth0 is in VLAN 6, not 5"),
        (|link| link.mtu = 1300, "Interface eth0 has MTU 1300, not 1400"),
        (|link| link.up = false, "Interface eth0 in the container namespace is down"),
    ];
    assert_check_compares(&Vlan, machine, &with(r#""mtu":1400"#), changes);
}

#[test]
fn an_mtu_that_is_not_given_is_not_compared() {
    let mut host = machine();
    let caller = with(r#""mtu":0"#).after_add(&Vlan, &mut host);
    host.change_link(Ns::Container, "eth0", |link| link.mtu = 1300);
    caller.check(&Vlan, &mut host).expect("CHECK");
}

#[test]
fn status_names_what_add_could_not_do_without() {
    let mut host = machine();
    caller().status(&Vlan, &mut host).expect("STATUS");
    assert_eq!(host.delegated(), ["static STATUS"]);
    let code =
        |caller: &Caller, host: &mut FakeHost| error_parts(caller.status(&Vlan, host).expect_err("it could not")).0;
    assert_eq!(code(&caller(), &mut machine().without_link_kind("vlan")), 50);
    assert_eq!(code(&with(r#""Master":"eno7""#), &mut machine()), 50);
    host.change_link(Ns::Host, "eno1", |link| link.up = false);
    assert_eq!(code(&caller(), &mut host), 51);
}

proptest! {
    /// Every number is that of a VLAN or refused by its name, and DEL takes away what ADD made.
    #[test]
    fn any_number_makes_a_link_that_del_removes_or_is_refused(id in any::<i32>().prop_map(i64::from), small in 0..4100_i64, mtu in -10..1600_i64) {
        for id in [id, small] {
            let mut host = machine();
            let before = host.state();
            let caller = with(&format!(r#""VlanId":{id},"mtu":{mtu}"#));
            match caller.add(&Vlan, &mut host) {
                Ok(_) => prop_assert!((0..=4094).contains(&id) && (0..=1500).contains(&mtu)),
                Err(error) => {
                    let message = error.to_string();
                    prop_assert!(message.contains(&format!("VLAN ID {id}")) || message.contains(&format!("MTU {mtu}")), "{message}");
                    prop_assert_eq!(host.state(), before.clone());
                }
            }
            caller.del(&Vlan, &mut host).expect("DEL");
            prop_assert_eq!(host.state(), before);
        }
    }
}
