//! The whole life of a dummy link, on a machine in memory.

use super::*;
use cni_core::request::Command;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host;
use cni_testkit::lifecycle::{
    LinkChange, assert_add_is_all_or_nothing, assert_addresses_are_required, assert_check_compares,
    assert_del_releases_after_removal, assert_del_removes_what_add_made, assert_del_works_without_namespace,
    assert_failed_ipam_is_released,
};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};

const CONFIG: &str = r#"{"cniVersion":"1.1.0","name":"n1","type":"dummy","ipam":{"type":"static"}}"#;

const ANSWER: &str = r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"},{"address":"fd00::5/64"}],
    "routes":[{"dst":"10.9.0.0/16"}],"dns":{"domain":"ipam"}}"#;

fn caller() -> Caller {
    Caller::new("c1", CONFIG)
}

fn machine() -> FakeHost {
    FakeHost::new().with_container("/run/netns/c1", FakeContainer::Present(None)).with_ipam(ANSWER)
}

fn refused(caller: &Caller, host: &mut FakeHost) -> (u32, String, String) {
    error_parts(caller.add(&Dummy, host).expect_err("refused"))
}

#[test]
fn add_asks_for_addresses_and_makes_the_link_with_them() {
    let mut host = machine();
    let result = caller().add(&Dummy, &mut host).expect("ADD");
    let want = [
        "delegate ADD to static",
        "container: link add eth0 type dummy",
        "container: sysctl net/ipv6/conf/lo/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/keep_addr_on_down=1",
        "container: addr add 10.1.2.5/24 dev eth0",
        "container: addr add fd00::5/64 dev eth0 nodad",
        "container: link set eth0 up",
        "container: route add 10.9.0.0/16 via 10.1.2.1 dev eth0",
    ];
    assert_eq!(host.applied(), want);
    let interface = &result.interfaces[0];
    assert_eq!((interface.name.as_str(), interface.sandbox.as_str()), ("eth0", "/run/netns/c1"));
    assert!(interface.mac.starts_with("02:"), "{}", interface.mac);
    assert!(result.ips.iter().all(|ip| ip.interface == Some(0)));
    assert_eq!(result.dns.domain, "ipam");
}

#[test]
fn an_ipam_plugin_that_fails_add_is_called_with_del() {
    assert_failed_ipam_is_released(&Dummy, machine, &caller());
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Dummy, machine, &caller()), 9);
}

#[test]
fn del_removes_what_add_made() {
    assert_del_removes_what_add_made(&Dummy, &mut machine(), &caller());
}

#[test]
fn a_network_without_ipam_is_refused_by_add_check_and_status() {
    for ipam in ["null", "{}", r#"{"type":""}"#] {
        let caller = caller().with_config(&CONFIG.replace(r#"{"type":"static"}"#, ipam));
        let mut host = machine();
        let text = "dummy interface requires an IPAM configuration";
        assert_eq!(refused(&caller, &mut host), (7, text.to_owned(), String::new()));
        for error in [caller.check(&Dummy, &mut host), caller.status(&Dummy, &mut host)] {
            assert_eq!(error.expect_err("refused").to_string(), text);
        }
        assert_eq!(host.delegated(), [""; 0]);
    }
}

#[test]
fn a_name_that_the_link_cannot_have_is_refused_before_ipam_is_asked() {
    let mut host = machine();
    let pattern = Caller { ifname: "d%d".to_owned(), ..caller() };
    let text = r#"failed to create dummy: the kernel would replace the % in "d%d" with a number"#;
    assert_eq!(refused(&pattern, &mut host), (4, text.to_owned(), String::new()));
    host.enter("/run/netns/c1").expect("entered");
    host.add_link(Ns::Container, Link { name: "eth0".to_owned(), kind: Some("veth".to_owned()), ..Link::default() });
    let details = r#"the container has an interface "eth0" of kind veth already"#;
    let taken = (103, "failed to create dummy: file exists".to_owned(), details.to_owned());
    assert_eq!(refused(&caller(), &mut host), taken);
    assert_eq!(host.applied(), [""; 0]);
}

#[test]
fn an_answer_without_addresses_is_released() {
    assert_addresses_are_required(&Dummy, machine, &caller());
}

#[test]
fn the_configurations_dns_takes_the_place_of_ipams() {
    let caller = caller().with_config(&CONFIG.replace(r#""ipam""#, r#""dns":{"domain":"own"},"ipam""#));
    assert_eq!(caller.add(&Dummy, &mut machine()).expect("ADD").dns.domain, "own");
}

#[test]
fn check_names_what_is_not_as_add_made_it() {
    let changes: &[LinkChange] = &[
        (|link| link.kind = Some("veth".to_owned()), "Interface eth0 does not have link type of dummy"),
        (|link| link.up = false, "Interface eth0 in the container namespace is down"),
        (|link| link.mac = None, "Interface eth0 Mac MAC doesn't match container Mac: "),
        (|link| link.name = "other".to_owned(), "Interface name eth0 not found in the container namespace"),
    ];
    assert_check_compares(&Dummy, machine, &caller(), changes);
    let error = caller().check(&Dummy, &mut machine()).expect_err("nothing is remembered");
    assert_eq!((error.code().number(), error.to_string()), (7, "Required prevResult missing".to_owned()));
}

#[test]
fn del_releases_the_address_once_the_link_is_removed() {
    assert_del_releases_after_removal(&Dummy, machine, &caller());
}

#[test]
fn del_needs_neither_the_namespace_nor_a_configuration_that_can_be_used() {
    assert_del_works_without_namespace(&Dummy, machine, &caller(), &caller());

    let mut host = machine();
    caller().add(&Dummy, &mut host).expect("ADD");
    let without_ipam = caller().with_config(&CONFIG.replace(r#"{"type":"static"}"#, "{}"));
    without_ipam.del(&Dummy, &mut host).expect("DEL");
    assert!(!host.state().iter().any(|line| line.contains("eth0")));
}

#[test]
fn status_and_gc_are_asked_of_the_ipam_plugin() {
    let mut host = machine();
    caller().status(&Dummy, &mut host).expect("STATUS");
    let list = CONFIG.replace(r#""ipam""#, r#""cni.dev/valid-attachments":[],"ipam""#);
    caller().with_config(&list).gc(&Dummy, &mut host).expect("GC");
    assert_eq!(host.delegated(), ["static STATUS", "static GC"]);
    let error = caller().status(&Dummy, &mut machine().without_link_kind("dummy")).expect_err("no dummies");
    assert_eq!(
        (error.code().number(), error.to_string()),
        (50, "this kernel has no links of kind dummy, load their module".to_owned())
    );
    host.fail_delegate(Some(Command::Status));
    assert_eq!(caller().status(&Dummy, &mut host).expect_err("IPAM fails").code().number(), 100);
}
