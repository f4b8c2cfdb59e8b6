//! The whole life of a tap device, on a machine in memory.

use super::*;
use cni_core::version::Version;
use cni_model::link::Link;
use cni_model::plan::{Ns, TapOptions as Device, TapQueues};
use cni_plugin::host::{Host, LinkQuery};
use cni_testkit::lifecycle::{
    LinkChange, assert_add_is_all_or_nothing, assert_addresses_are_required, assert_check_compares,
    assert_del_leaves_another_kind, assert_del_releases_after_removal, assert_del_removes_what_add_made,
    assert_del_works_with, assert_del_works_without_namespace, assert_failed_ipam_is_released,
};
use cni_testkit::{Caller, FakeContainer, FakeHost, error_parts};
use proptest::prelude::*;

const LAYER_TWO: &str = r#"{"cniVersion":"1.1.0","name":"n1","type":"tap","owner":1000}"#;

const ANSWER: &str = r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.5/24","gateway":"10.1.2.1"},{"address":"fd00::5/64"}],
    "routes":[{"dst":"10.9.0.0/16"}],"dns":{"domain":"ipam"}}"#;

const NETNS: &str = "/run/netns/c1";

fn with(keys: &str) -> Caller {
    Caller::new("c1", &LAYER_TWO.replace(r#""owner":1000"#, keys))
}

fn layer_two() -> Caller {
    Caller::new("c1", LAYER_TWO)
}

fn caller() -> Caller {
    with(r#""owner":1000,"ipam":{"type":"static"}"#)
}

fn bridged() -> Caller {
    with(r#""bridge":"br1","multiQueue":true,"mtu":1400,"ipam":{"type":"static"}"#)
}

/// A container with a bridge, and a driver for the devices.
fn machine() -> FakeHost {
    let mut host = FakeHost::new().with_container(NETNS, FakeContainer::Present(None)).with_ipam(ANSWER);
    host.devices.add_directory("/dev/net/tun");
    host.enter(NETNS).expect("entered");
    host.add_link(Ns::Container, Link { name: "br1".to_owned(), kind: Some("bridge".to_owned()), ..Link::default() });
    host
}

fn link(host: &mut FakeHost) -> Link {
    let name = cni_core::names::IfName::parse("eth0").expect("a name");
    let host: &mut dyn Host = host;
    host.links(Ns::Container, LinkQuery::Name(&name)).expect("asked").pop().expect("eth0")
}

#[test]
fn add_makes_the_device_and_gives_it_the_addresses() {
    let mut host = machine();
    let result = bridged().add(&Tap, &mut host).expect("ADD");
    let want = [
        "container: link add eth0 type tun mode tap multi_queue mtu 1400",
        "container: link set eth0 master br1",
        "delegate ADD to static",
        "container: sysctl net/ipv4/conf/eth0/arp_notify=1",
        "container: sysctl net/ipv6/conf/lo/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/disable_ipv6=0",
        "container: sysctl net/ipv6/conf/eth0/keep_addr_on_down=1",
        "container: addr add 10.1.2.5/24 dev eth0",
        "container: addr add fd00::5/64 dev eth0",
        "container: link set eth0 up",
        "container: settle addresses of eth0",
        "container: route add 10.9.0.0/16 via 10.1.2.1 dev eth0",
    ];
    assert_eq!(host.applied(), want);
    assert_eq!(result.interfaces.len(), 1);
    assert_eq!((result.interfaces[0].name.as_str(), result.interfaces[0].sandbox.as_str()), ("eth0", NETNS));
    assert!(result.interfaces[0].mac.starts_with("02:"), "{}", result.interfaces[0].mac);
    assert!(result.ips.iter().all(|ip| ip.interface == Some(0)));
    assert_eq!(result.dns.domain, "ipam");
}

#[test]
fn without_ipam_there_is_the_device_alone() {
    let mut host = machine();
    let label = with(r#""owner":0,"group":5,"selinuxcontext":"system_u:object_r:x","dns":{"domain":"own"},"ipam":{}"#);
    let result = label.add(&Tap, &mut host).expect("ADD");
    let want = [
        "container: link add eth0 type tun mode tap user 0 group 5 labelled system_u:object_r:x",
        "container: link set eth0 up",
    ];
    assert_eq!(host.applied(), want);
    assert_eq!((result.ips.len(), result.dns.domain.as_str()), (0, "own"));
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
        caller.add(&Tap, &mut host).expect("ADD");
        assert_eq!(link(&mut host).mac.expect("an address").to_string(), format!("02:00:00:00:00:{want}"));
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    for (keys, code, text) in [
        (r#""mtu":67"#, 7, "invalid mtu 67 (must be between 68 and 65521)"),
        (r#""mtu":65522"#, 7, "invalid mtu 65522 (must be between 68 and 65521)"),
        (r#""mtu":-1"#, 7, "invalid mtu -1 (must be between 68 and 65521)"),
        (r#""owner":4294967295"#, 7, "invalid owner 4294967295 (the number means nobody)"),
        (r#""group":4294967295"#, 7, "invalid group 4294967295 (the number means nobody)"),
        (r#""mac":"zz""#, 7, "failed to create tap: invalid mac"),
        (r#""bridge":"a/b""#, 7, r#"invalid bridge "a/b""#),
        (r#""bridge":"nobr""#, 7, "failed to get bridge nobr: Link not found"),
        (r#""bridge":"lo""#, 7, "failed to set tap as a port of bridge lo: it is no bridge"),
        (r#""selinuxContext":"a\u0000b""#, 7, r#"invalid selinuxContext "a\0b" (must not hold a zero byte)"#),
    ] {
        let mut host = machine();
        assert_eq!(with(keys).refusal(&Tap, &mut host), (code, text.to_owned()), "{keys}");
        assert_eq!((host.applied().len(), host.delegated().len()), (0, 0), "{keys}");
    }
    for keys in [r#""owner":"root""#, r#""group":-1"#, r#""args":7"#, r#""prevResult":7"#] {
        assert_eq!(error_parts(with(keys).add(&Tap, &mut machine()).expect_err("refused")).0, 6, "{keys}");
    }
}

/// The reference takes the other link over.
#[test]
fn a_name_that_is_taken_is_refused() {
    let mut host = machine();
    host.add_link(Ns::Container, Link { name: "eth0".to_owned(), kind: Some("bridge".to_owned()), ..Link::default() });
    assert_eq!(caller().refusal(&Tap, &mut host), (103, "failed to create tap: file exists".to_owned()));
    assert_eq!(host.applied(), [""; 0]);
}

#[test]
fn an_ipam_plugin_that_fails_add_is_called_with_del() {
    assert_failed_ipam_is_released(&Tap, machine, &caller());
    assert_failed_ipam_is_released(&Tap, machine, &bridged());
}

#[test]
fn a_failure_at_any_step_leaves_nothing() {
    assert_eq!(assert_add_is_all_or_nothing(&Tap, machine, &caller()), 11);
    assert_eq!(assert_add_is_all_or_nothing(&Tap, machine, &bridged()), 12);
    assert_eq!(assert_add_is_all_or_nothing(&Tap, machine, &layer_two()), 2);
}

#[test]
fn an_answer_without_addresses_is_released_and_the_device_removed() {
    assert_addresses_are_required(&Tap, machine, &caller());
}

#[test]
fn del_removes_what_add_made() {
    for caller in [caller(), bridged(), layer_two()] {
        assert_del_removes_what_add_made(&Tap, &mut machine(), &caller);
    }
}

#[test]
fn del_needs_neither_namespace_nor_a_configuration_that_can_be_used() {
    let broken = with(r#""mtu":-1,"mac":"zz","bridge":"gone","ipam":{"type":"static"}"#);
    let callers = [caller(), broken, caller().with_args("MAC=zz"), caller().with_args("no pair")];
    assert_del_works_with(&Tap, machine, &caller(), &callers);
    assert_del_works_without_namespace(&Tap, machine, &caller(), &caller());
}

#[test]
fn del_leaves_a_link_of_another_kind_and_removes_one_with_another_mac_address() {
    assert_del_leaves_another_kind(&Tap, machine, &caller());
}

#[test]
fn del_releases_the_address_once_the_link_is_removed() {
    assert_del_releases_after_removal(&Tap, machine, &caller());
}

#[test]
fn check_names_what_is_not_as_add_made_it() {
    let changes: &[LinkChange] = &[
        (|link| link.kind = Some("veth".to_owned()), "Interface eth0 does not have link type of tun"),
        (
            |link| link.tap = Some(Device { owner: Some(7), group: None, queues: TapQueues::One }),
            "interface eth0 is tun mode tap user 7, and not tun mode tap multi_queue",
        ),
        (|link| link.master = None, "tap eth0 is not a port of bridge br1"),
        (|link| link.up = false, "Interface eth0 in the container namespace is down"),
        (|link| link.mac = None, "Interface eth0 Mac MAC doesn't match container Mac: "),
        (|link| link.name = "other".to_owned(), "Interface name eth0 not found in the container namespace"),
    ];
    assert_check_compares(&Tap, machine, &bridged(), changes);
    let error = caller().check(&Tap, &mut machine()).expect_err("nothing is remembered");
    assert_eq!((error.code().number(), error.to_string()), (7, "Required prevResult missing".to_owned()));
}

/// Kernels before 4.17 do not tell who may open a device.
#[test]
fn check_passes_where_the_kernel_does_not_tell_of_taps() {
    let mut host = machine();
    let caller = caller().after_add(&Tap, &mut host);
    host.change_link(Ns::Container, "eth0", |link| link.tap = None);
    caller.check(&Tap, &mut host).expect("CHECK");
}

#[test]
fn status_and_gc_are_asked_of_the_ipam_plugin() {
    let mut host = machine();
    caller().status(&Tap, &mut host).expect("STATUS");
    layer_two().status(&Tap, &mut host).expect("STATUS");
    with(r#""cni.dev/valid-attachments":[],"ipam":{"type":"static"}"#).gc(&Tap, &mut host).expect("GC");
    assert_eq!(host.delegated(), ["static STATUS", "static GC"]);
    let error = layer_two().status(&Tap, &mut FakeHost::new()).expect_err("no driver");
    let text = "/dev/net/tun does not exist, load the module tun";
    assert_eq!((error.code().number(), error.to_string()), (50, text.to_owned()));
}

/// A configuration of keys with values at random, most of which can be used.
fn any_config() -> impl Strategy<Value = (String, i64)> {
    let mtu = prop_oneof![4 => 68..=65521_i64, 1 => any::<i64>()];
    let mac = prop_oneof![2 => Just(String::new()), 4 => "02(:[0-9a-f]{2}){5}", 1 => "[0-9a-f:.-]{0,24}"];
    let bridge = prop_oneof![Just(""), Just("br1"), Just("lo"), Just("none")];
    (any::<Option<u32>>(), any::<bool>(), mtu, mac, bridge, any::<bool>()).prop_map(
        |(owner, many, mtu, mac, bridge, addressed)| {
            let owner = owner.map_or_else(|| "null".to_owned(), |owner| owner.to_string());
            let ipam = if addressed { r#","ipam":{"type":"static"}"# } else { "" };
            let keys =
                format!(r#""owner":{owner},"multiQueue":{many},"mtu":{mtu},"mac":"{mac}","bridge":"{bridge}"{ipam}"#);
            (LAYER_TWO.replace(r#""owner":1000"#, &keys), mtu)
        },
    )
}

proptest! {
    /// Whatever the keys say, ADD refuses one by its name and leaves nothing, or makes a device that passes CHECK; DEL
    /// leaves what was there before.
    #[test]
    fn any_configuration_makes_a_device_that_del_removes_or_is_refused((config, mtu) in any_config()) {
        let mut host = machine();
        let before = host.state();
        let caller = layer_two().with_config(&config);
        match caller.add(&Tap, &mut host) {
            Ok(result) => {
                prop_assert!(mtu == 0 || i64::from(link(&mut host).mtu) == mtu);
                let result = result.render(Version::LATEST).expect("text");
                let check = config.replace(r#""owner""#, &format!(r#""prevResult":{result},"owner""#));
                layer_two().with_config(&check).check(&Tap, &mut host).expect("CHECK");
            }
            Err(error) => {
                let named = ["mtu", "mac", "bridge", "owner"].iter().any(|key| error.to_string().contains(key));
                prop_assert!(named && error.code().number() == 7, "{}", error);
                prop_assert_eq!(host.state(), before.clone());
            }
        }
        caller.del(&Tap, &mut host).expect("DEL");
        prop_assert_eq!(host.state(), before);
    }
}
