//! The MAC address of the container's interface: `runtimeConfig.mac`, `args.cni.mac`, CNI_ARGS `MAC`.

use cni_conformance::Sandbox;
use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, layer_two, network, text, with};

const A: &str = "02:00:00:00:00:0a";
const B: &str = "02:00:00:00:00:0b";
const C: &str = "02:00:00:00:00:0c";

fn in_runtime_config(mac: &str) -> Value {
    json!({"runtimeConfig": {"mac": mac}})
}

fn in_args(mac: &str) -> Value {
    json!({"args": {"cni": {"mac": mac}}})
}

#[track_caller]
fn assert_mac(keys: Value, args: &str, expected: &str) {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], keys)).args(args);
    let result = port.add();
    assert_eq!(port.interface().mac, expected);
    assert_eq!(text(&result["interfaces"][2]["mac"]), expected);
    assert_ne!(port.host_end(&result).mac, expected, "the host's end has an address of its own");
    port.check(&result);
    port.del();
}

#[test]
fn the_runtimes_mac_counts_before_that_of_args_and_that_before_cni_args() {
    let both = with(&in_runtime_config(A), &in_args(B));
    let pair = format!("IgnoreUnknown=1;MAC={C}");
    let empty = with(&in_runtime_config(""), &in_args(""));
    for_each(
        [
            ("runtimeConfig alone", (in_runtime_config(A), "", A)),
            ("args alone", (in_args(B), "", B)),
            ("CNI_ARGS alone", (json!({}), pair.as_str(), C)),
            ("all three", (both.clone(), pair.as_str(), A)),
            ("runtimeConfig and args", (both, "", A)),
            ("args and CNI_ARGS", (in_args(B), pair.as_str(), B)),
            ("runtimeConfig and CNI_ARGS", (in_runtime_config(A), pair.as_str(), A)),
            ("empty ones do not count", (empty, pair.as_str(), C)),
        ],
        |(keys, args, expected)| assert_mac(keys, args, expected),
    );
}

#[test]
fn a_mac_is_written_in_three_ways_and_any_case() {
    let expected = "02:ab:cd:ef:00:1a";
    for_each(
        ["02:ab:cd:ef:00:1a", "02:AB:cd:EF:00:1A", "02-ab-cd-ef-00-1a", "02AB.cdef.001a"].map(|mac| (mac, mac)),
        |mac| {
            assert_mac(in_runtime_config(mac), "", expected);
            assert_mac(in_args(mac), "", expected);
            assert_mac(json!({}), &format!("MAC={mac};IgnoreUnknown=1"), expected);
        },
    );
}

#[test]
fn without_a_mac_each_interface_has_its_own() {
    let sandbox = Sandbox::new();
    let macs = ["id1", "id2", "id3"].map(|id| {
        let port = Port::new(&sandbox, id, layer_two(json!({})));
        let result = port.add();
        let mac = port.interface().mac;
        assert_eq!(result["interfaces"][2]["mac"], mac);
        let first = u8::from_str_radix(&mac[..2], 16).expect("a MAC begins with a byte");
        assert_eq!(first & 3, 2, "{mac} must be a unicast address of local making");
        mac
    });
    assert!(macs[0] != macs[1] && macs[1] != macs[2] && macs[0] != macs[2], "{macs:?}");
}

/// Texts that are no address, and addresses that no Ethernet interface has.
const REFUSED: [&str; 10] = [
    "zz",
    "02:00:00:00:00",
    "02:00:00:00:00:0",
    "02:00:00:00:00:0g",
    "02:00:00:00-00:01",
    "0200.0000.00",
    "00:00:00:00:00:00",
    "01:00:5e:00:00:01",
    "02:00:00:00:00:00:00:01",
    "ff:ff:ff:ff:ff:ff",
];

#[test]
fn a_mac_that_no_interface_has_is_refused_wherever_it_stands() {
    let sandbox = Sandbox::new();
    let cases = REFUSED.into_iter().enumerate().map(|(number, mac)| (mac, (number, mac)));
    for_each(cases, |(number, mac)| {
        let mut port = Port::new(&sandbox, &format!("id{number}"), network(&[V4], json!({})));
        let before = port.state();
        for (keys, args, place) in [
            (in_runtime_config(mac), String::new(), "runtimeConfig.mac"),
            (in_args(mac), String::new(), "args.cni.mac"),
            (json!({}), format!("MAC={mac};IgnoreUnknown=1"), "CNI_ARGS MAC"),
        ] {
            port.config = network(&[V4], keys);
            port = port.args(&args);
            port.says_no(7, &["failed to make veth pair", place, mac]);
        }
        assert_same(&before, &port.state());
    });
}

/// The address that counts is looked at, and no other.
#[test]
fn a_mac_that_does_not_count_is_not_looked_at() {
    assert_mac(with(&in_runtime_config(A), &in_args("zz")), "MAC=zz;IgnoreUnknown=1", A);
}

/// Go's host-local refuses the `MAC` that is meant for bridge.
#[test]
fn the_ipam_plugin_does_not_mind_a_mac_in_cni_args() {
    assert_mac(json!({}), &format!("MAC={A}"), A);
}

#[test]
fn check_misses_the_mac_that_the_result_tells() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], in_runtime_config(A)));
    let result = port.add();
    port.container.sh(&format!("ip link set eth0 address {B}"));
    port.call_check(&result).run().expect_error(100, B);
}

/// Whatever makes MAC addresses of the machine's id makes the same ones on machines that were cloned from one image, as
/// udev does of links whose address nobody has set.
#[test]
fn machines_with_one_id_and_containers_of_one_name_have_no_mac_in_common() {
    let mut seen = std::collections::BTreeSet::new();
    for _ in ["one", "its clone"] {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", network(&[V4], json!({"isGateway": true})));
        let result = port.add();
        for link in [port.bridge(), port.host_end(&result), port.interface()] {
            assert!(seen.insert(link.mac.clone()), "{} is there twice: {seen:?}", link.mac);
        }
        // `NET_ADDR_SET` of linux/netdevice.h: udev leaves it alone.
        for name in [port.bridge().name, port.host_end(&result).name] {
            assert_eq!(sandbox.sh(&format!("cat /sys/class/net/{name}/addr_assign_type")).trim(), "3", "{name}");
        }
    }
}
