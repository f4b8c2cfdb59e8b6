//! The whole life of a macvlan, on a machine in memory.

use super::*;
use cni_core::mac::Mac;
use cni_core::version::Version;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, MacvlanMode, Ns};
use cni_plugin::host::Host;
use cni_testkit::lifecycle::{
    LinkChange, assert_add_is_all_or_nothing, assert_addresses_are_required, assert_check_compares,
    assert_del_leaves_another_kind, assert_del_releases_after_removal, assert_del_removes_what_add_made,
    assert_del_works_with, assert_del_works_without_namespace, assert_failed_ipam_is_released,
};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};
use proptest::prelude::*;

const LAYER_TWO: &str = r#"{"cniVersion":"1.1.0","name":"n1","type":"macvlan","master":"eno1"}"#;

const CONFIG: &str = r#"{"cniVersion":"1.1.0","name":"n1","type":"macvlan","master":"eno1","ipam":{"type":"static"}}"#;

const ANSWER: &str = r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"},{"address":"fd00::5/64"}],
    "routes":[{"dst":"0.0.0.0/0"}],"dns":{"domain":"ipam"}}"#;

fn with(keys: &str) -> Caller {
    Caller::new("c1", &CONFIG.replace(r#""ipam""#, &format!(r#"{keys},"ipam""#)))
}

fn caller() -> Caller {
    Caller::new("c1", CONFIG)
}

fn layer_two() -> Caller {
    Caller::new("c1", LAYER_TWO)
}

/// A machine with the interface `eno1` and a container.
fn machine() -> FakeHost {
    let host = FakeHost::new().with_container("/run/netns/c1", FakeContainer::Present(None)).with_ipam(ANSWER);
    host.with_interface("eno1")
}

/// The link in the container.
fn link(host: &mut FakeHost) -> Link {
    host.enter("/run/netns/c1").expect("entered");
    let name = cni_core::names::IfName::parse("eth0").expect("a name");
    (host as &mut dyn Host).link(Ns::Container, &name).expect("an answer").expect("a link")
}

#[test]
fn add_makes_the_link_before_it_asks_for_addresses() {
    let mut host = machine();
    let result = caller().add(&Macvlan, &mut host).expect("ADD");
    let want = [
        "container: link add eth0 type macvlan mode bridge of eno1 on host",
        "delegate ADD to static",
        "container: sysctl net/ipv4/conf/eth0/arp_notify=1",
        "container: sysctl net/ipv6/conf/eth0/ndisc_notify=1",
        "container: sysctl net/ipv6/conf/lo/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/keep_addr_on_down=1",
        "container: addr add 10.1.2.5/24 dev eth0",
        "container: addr add fd00::5/64 dev eth0",
        "container: link set eth0 up",
        "container: settle addresses of eth0",
        "container: route add 0.0.0.0/0 via 10.1.2.1 dev eth0",
    ];
    assert_eq!(host.applied(), want);
    let interface = &result.interfaces[0];
    assert_eq!((interface.name.as_str(), interface.sandbox.as_str()), ("eth0", "/run/netns/c1"));
    assert!(interface.mac.starts_with("02:"), "{}", interface.mac);
    assert!(result.ips.iter().all(|ip| ip.interface == Some(0)));
    assert_eq!(result.dns.domain, "ipam");
}

#[test]
fn without_ipam_the_link_is_up_and_has_no_address() {
    for ipam in ["", r#","ipam":{}"#, r#","ipam":{"type":""},"dns":{"domain":"own"}"#] {
        let mut host = machine();
        let config = LAYER_TWO.replace(r#""eno1""#, &format!(r#""eno1"{ipam}"#));
        let result = layer_two().with_config(&config).add(&Macvlan, &mut host).expect("ADD");
        let want = ["container: link add eth0 type macvlan mode bridge of eno1 on host", "container: link set eth0 up"];
        assert_eq!(host.applied(), want);
        assert_eq!((result.ips.len(), result.dns.domain.as_str()), (0, if ipam.contains("own") { "own" } else { "" }));
    }
}

#[test]
fn every_key_shows_on_the_link() {
    let mut host = machine();
    let keys = r#""mode":"vepa","mtu":1400,"bcqueuelen":77,"mac":"02:00:00:00:00:0a""#;
    with(keys).add(&Macvlan, &mut host).expect("ADD");
    let made = link(&mut host);
    let child = ChildKind::Macvlan { mode: MacvlanMode::Vepa, broadcast_queue: Some(77) };
    assert_eq!((made.child, made.mtu), (Some(child), 1400));
    assert_eq!(made.mac.expect("an address").to_string(), "02:00:00:00:00:0a");
}

#[test]
fn the_runtimes_mac_address_wins_then_that_of_the_arguments_then_the_configurations() {
    let runtime = r#""mac":"02:00:00:00:00:0a","runtimeConfig":{"mac":"02:00:00:00:00:0c"}"#;
    let args = "IgnoreUnknown=1;MAC=02:00:00:00:00:0b";
    for (caller, want) in [
        (with(runtime).with_args(args), "0c"),
        (with(r#""mac":"02:00:00:00:00:0a""#).with_args(args), "0b"),
        (with(r#""mac":"02:00:00:00:00:0a""#), "0a"),
    ] {
        let mut host = machine();
        caller.add(&Macvlan, &mut host).expect("ADD");
        assert_eq!(link(&mut host).mac.expect("an address").to_string(), format!("02:00:00:00:00:{want}"));
    }
}

#[test]
fn in_mode_passthru_the_masters_mac_address_stays() {
    let mut host = machine();
    with(r#""mode":"passthru""#).add(&Macvlan, &mut host).expect("ADD");
    assert_eq!(link(&mut host).mac, Some(Mac::local([0, 0, 0, 0, 0, 9])));
    let text = "failed to create macvlan: mac 02:00:00:00:00:0a cannot be set in mode passthru, in which the link has that \
                of its master";
    let caller = with(r#""mode":"passthru","mac":"02:00:00:00:00:0a""#);
    assert_eq!(caller.refusal(&Macvlan, &mut machine()), (7, text.to_owned()));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    for (keys, code, text) in [
        (r#""mode":"Bridge""#, 7, r#"unknown macvlan mode: "Bridge""#),
        (r#""mode":"source""#, 7, r#"unknown macvlan mode: "source""#),
        (r#""mtu":1501"#, 7, "invalid MTU 1501, must be [0, master MTU(1500)]"),
        (r#""mtu":-1"#, 7, "invalid MTU -1, must be [0, master MTU(1500)]"),
        (r#""mac":"zz""#, 7, "failed to create macvlan: invalid mac"),
        (r#""MASTER":"eno7""#, 7, r#"failed to lookup master "eno7": Link not found"#),
        (r#""Master":"""#, 7, "no default route interface found"),
    ] {
        let mut host = machine();
        assert_eq!(with(keys).refusal(&Macvlan, &mut host), (code, text.to_owned()), "{keys}");
        assert_eq!((host.applied().len(), host.delegated().len()), (0, 0), "{keys}");
    }
    for keys in [r#""bcqueuelen":-1"#, r#""bcqueuelen":4294967296"#] {
        let (code, _, details) = error_parts(with(keys).add(&Macvlan, &mut machine()).expect_err("refused"));
        assert!(code == 6 && details.contains("bcqueuelen"), "{code} {details}");
    }
}

#[test]
fn the_master_may_be_in_the_container() {
    let mut host = machine();
    host.enter("/run/netns/c1").expect("entered");
    host.add_link(Ns::Container, Link { name: "eth1".to_owned(), mtu: 1300, up: true, ..Link::default() });
    let caller = with(r#""linkInContainer":true,"Master":"eth1""#);
    caller.add(&Macvlan, &mut host).expect("ADD");
    assert_eq!(link(&mut host).mtu, 1300);
    assert!(host.applied()[0].ends_with("of eth1 on container"), "{:?}", host.applied());
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let mut host = machine();
    host.enter("/run/netns/c1").expect("entered");
    host.add_link(Ns::Container, Link { name: "eth0".to_owned(), kind: Some("veth".to_owned()), ..Link::default() });
    assert_eq!(caller().refusal(&Macvlan, &mut host), (103, "failed to create macvlan: file exists".to_owned()));
    assert_eq!(host.applied(), [""; 0]);
}

#[test]
fn an_ipam_plugin_that_fails_add_is_called_with_del() {
    assert_failed_ipam_is_released(&Macvlan, machine, &caller());
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Macvlan, machine, &caller()), 12);
    assert_eq!(assert_add_is_all_or_nothing(&Macvlan, machine, &layer_two()), 2);
}

/// Else its address could be another container's already.
#[test]
fn the_link_goes_before_its_address_when_add_fails() {
    let mut host = machine();
    host.fail_at(12);
    caller().add(&Macvlan, &mut host).expect_err("the route");
    assert_eq!(host.applied()[12], "container: link del index 2");
    assert_eq!(host.delegated(), ["static ADD", "static DEL"]);
}

#[test]
fn an_answer_without_addresses_is_released_and_the_link_removed() {
    assert_addresses_are_required(&Macvlan, machine, &caller());
}

#[test]
fn del_removes_what_add_made() {
    assert_del_removes_what_add_made(&Macvlan, &mut machine(), &caller());
    assert_del_removes_what_add_made(&Macvlan, &mut machine(), &layer_two());
}

#[test]
fn del_needs_neither_master_namespace_nor_a_configuration_that_can_be_used() {
    let broken = r#""mode":"zz","mtu":-1,"mac":"zz","Master":"gone""#;
    let callers = [caller(), with(broken), caller().with_args("MAC=zz"), caller().with_args("no pair")];
    assert_del_works_with(&Macvlan, machine, &caller(), &callers);
    assert_del_works_without_namespace(&Macvlan, machine, &caller(), &caller());
}

#[test]
fn del_leaves_a_link_of_another_kind_and_removes_one_with_another_mac_address() {
    assert_del_leaves_another_kind(&Macvlan, machine, &caller());
}

/// Where the kernel does not take the name at once, a killed ADD may leave the link under another.
#[test]
fn del_removes_a_link_that_was_not_renamed() {
    let mut host = machine();
    let before = host.state();
    caller().add(&Macvlan, &mut host).expect("ADD");
    let name = cni_core::names::IfName::parse("eth0").expect("a name");
    let temporary = cni_model::plan::temporary_name(&name).to_string();
    host.change_link(Ns::Container, "eth0", |link| link.name = temporary);
    caller().del(&Macvlan, &mut host).expect("DEL");
    let left: Vec<String> = host.state().into_iter().filter(|line| !before.contains(line)).collect();
    assert!(!left.iter().any(|line| line.contains("macvlan")), "{left:?}");
}

#[test]
fn del_releases_the_address_once_the_link_is_removed() {
    assert_del_releases_after_removal(&Macvlan, machine, &caller());
}

#[test]
fn check_names_what_is_not_as_add_made_it() {
    let changes: &[LinkChange] = &[
        (|link| link.kind = Some("veth".to_owned()), "Interface eth0 does not have link type of macvlan"),
        (
            |link| link.child = Some(ChildKind::Macvlan { mode: MacvlanMode::Source, broadcast_queue: None }),
            "container macvlan mode source does not match expected value: bridge",
        ),
        (|link| link.up = false, "Interface eth0 in the container namespace is down"),
        (|link| link.mac = None, "Interface eth0 Mac MAC doesn't match container Mac: "),
        (|link| link.name = "other".to_owned(), "Interface name eth0 not found in the container namespace"),
    ];
    assert_check_compares(&Macvlan, machine, &caller(), changes);
    let error = caller().check(&Macvlan, &mut machine()).expect_err("nothing is remembered");
    assert_eq!((error.code().number(), error.to_string()), (7, "Required prevResult missing".to_owned()));
}

/// The reference fails when the MTU of the master sinks below the link's, and when the default route moves.
#[test]
fn check_is_about_the_link_alone() {
    let mut host = machine();
    let result = with(r#""mtu":1500"#).add(&Macvlan, &mut host).expect("ADD").render(Version::LATEST).expect("text");
    host.change_link(Ns::Host, "eno1", |link| link.mtu = 1400);
    with(&format!(r#""mtu":1500,"prevResult":{result}"#)).check(&Macvlan, &mut host).expect("CHECK");
    with(&format!(r#""Master":"","prevResult":{result}"#)).check(&Macvlan, &mut host).expect("CHECK");
}

#[test]
fn status_names_what_add_could_not_do_without() {
    let mut host = machine();
    caller().status(&Macvlan, &mut host).expect("STATUS");
    layer_two().status(&Macvlan, &mut host).expect("STATUS");
    assert_eq!(host.delegated(), ["static STATUS"]);
    let status = |caller: &Caller, host: &mut FakeHost| {
        let (code, text, _) = error_parts(caller.status(&Macvlan, host).expect_err("it could not"));
        (code, text)
    };
    let kind = (50, "this kernel has no links of kind macvlan, load their module".to_owned());
    assert_eq!(status(&caller(), &mut machine().without_link_kind("macvlan")), kind);
    let missing = (50, r#"failed to lookup master "eno7": Link not found"#.to_owned());
    assert_eq!(status(&with(r#""Master":"eno7""#), &mut machine()), missing);
    with(r#""Master":"eno7","linkInContainer":true"#).status(&Macvlan, &mut machine()).expect("not looked for");
    assert_eq!(status(&with(r#""mode":"zz""#), &mut machine()).0, 7);
    host.change_link(Ns::Host, "eno1", |link| link.up = false);
    let (code, text) = status(&caller(), &mut host);
    assert!(code == 51 && text.starts_with(r#"master "eno1" is down"#), "{code} {text}");
}

#[test]
fn gc_is_the_ipam_plugins() {
    let mut host = machine();
    with(r#""cni.dev/valid-attachments":[]"#).gc(&Macvlan, &mut host).expect("GC");
    assert_eq!(host.delegated(), ["static GC"]);
}

/// A configuration of keys with values at random, most of which can be used.
fn any_config() -> impl Strategy<Value = (String, i64, String)> {
    let mode = prop_oneof![
        4 => prop::sample::select(vec!["", "bridge", "private", "vepa", "passthru"]).prop_map(str::to_owned),
        1 => "[a-zA-Z]{1,9}",
    ];
    let mtu = prop_oneof![4 => 0..=1500_i64, 1 => any::<i64>()];
    let mac = prop_oneof![2 => Just(String::new()), 4 => "02(:[0-9a-f]{2}){5}", 1 => "[0-9a-f:.-]{0,24}"];
    (mode, mtu, mac, any::<u32>(), any::<bool>()).prop_map(|(mode, mtu, mac, queue, addressed)| {
        let ipam = if addressed { r#","ipam":{"type":"static"}"# } else { "" };
        let keys = format!(r#""eno1","mode":"{mode}","mtu":{mtu},"mac":"{mac}","bcqueuelen":{queue}{ipam}"#);
        (LAYER_TWO.replace(r#""eno1""#, &keys), mtu, mac)
    })
}

proptest! {
    /// Whatever the keys say, ADD refuses one by its name and leaves nothing, or makes a link that passes CHECK; DEL leaves what was
    /// there before.
    #[test]
    fn any_configuration_makes_a_link_that_del_removes_or_is_refused((config, mtu, mac) in any_config()) {
        let mut host = machine();
        let before = host.state();
        let caller = caller().with_config(&config);
        match caller.add(&Macvlan, &mut host) {
            Ok(result) => {
                let made = link(&mut host);
                prop_assert!(mtu == 0 || i64::from(made.mtu) == mtu);
                prop_assert!(mac.is_empty() || mac.parse().ok() == made.mac);
                let result = result.render(Version::LATEST).expect("text");
                let check = config.replace(r#""mode""#, &format!(r#""prevResult":{result},"mode""#));
                caller.with_config(&check).check(&Macvlan, &mut host).expect("CHECK");
            }
            Err(error) => {
                let named = ["macvlan mode", "invalid MTU", "mac"].iter().any(|key| error.to_string().contains(key));
                prop_assert!(named && error.code().number() == 7, "{}", error);
                prop_assert_eq!(host.state(), before.clone());
            }
        }
        caller.del(&Macvlan, &mut host).expect("DEL");
        prop_assert_eq!(host.state(), before);
    }
}
