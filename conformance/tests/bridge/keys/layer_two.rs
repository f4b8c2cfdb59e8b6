//! A network without an IPAM plugin, and `disableContainerInterface`.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::{Network, Sandbox, State, Verb};
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, layer_two, network, text};

/// Ways to say that there is no IPAM plugin.
fn without_ipam() -> [(&'static str, Value); 4] {
    [
        ("no ipam", json!({})),
        ("ipam null", json!({"ipam": null})),
        ("ipam without type", json!({"ipam": {"subnet": V4}})),
        ("ipam with an empty type", json!({"ipam": {"type": ""}})),
    ]
}

/// Go: CHECK looks for a plugin without a name, and always fails.
#[test]
fn an_interface_without_addresses_is_added_checked_and_deleted() {
    for_each(without_ipam(), |keys| lives(keys, "1.0.0"));
    for_each(["0.3.0", "0.3.1", "0.4.0", "1.1.0"].map(|version| (version, version)), |version| {
        lives(json!({}), version)
    });
}

fn lives(keys: Value, version: &str) {
    let sandbox = Sandbox::new();
    let before = State::of_host(&sandbox);
    let mut port = Port::new(&sandbox, "id1", layer_two(keys));
    port.config["cniVersion"] = json!(version);
    let result = port.add();
    assert!(result.get("ips").is_none() && result.get("routes").is_none(), "{result}");
    assert_eq!(result["interfaces"].as_array().map(Vec::len), Some(3), "{result}");
    let inside = port.inside();
    assert!(inside.link("eth0").expect("eth0").up);
    assert_eq!(inside.addresses_of("eth0"), [""; 0]);
    if version >= "0.4.0" {
        port.check(&result);
    }
    port.del();
    assert!(port.inside().link("eth0").is_none());
    port.shared().assert_nothing_else(&before, || State::of_host(&sandbox));
    port.del();
}

#[test]
fn keys_for_addresses_do_nothing_without_ipam() {
    let sandbox = Sandbox::new();
    let keys =
        json!({"isDefaultGateway": true, "isGateway": true, "forceAddress": true, "ipMasq": true, "enabledad": true});
    let port = Port::new(&sandbox, "id1", layer_two(keys));
    let result = port.add();
    assert_eq!(Network::observe(sandbox.host()).addresses_of("br0"), [""; 0]);
    assert_eq!(sandbox.sysctl("net/ipv4/ip_forward"), "0");
    let state = State::of_host(&sandbox);
    for section in ["iptables nat", "ip6tables nat"] {
        assert!(state.section(section).iter().all(|line| line.starts_with("-P ")), "{section}");
    }
    assert_eq!(state.section("nftables"), [""; 0]);
    port.check(&result);
    port.del();
}

#[test]
fn containers_without_addresses_reach_each_other_by_addresses_of_their_own() {
    let sandbox = Sandbox::new();
    let ports = ["id1", "id2"].map(|id| Port::new(&sandbox, id, layer_two(json!({}))));
    for (port, address) in ports.iter().zip(["10.7.7.1/24", "10.7.7.2/24"]) {
        port.add();
        port.container.sh(&format!("ip address add {address} dev eth0"));
    }
    assert!(ports[0].reaches("10.7.7.2", Duration::from_secs(20)));
    ports[1].del();
    assert!(!ports[0].reaches("10.7.7.2", Duration::from_millis(200)));
}

/// Takes something away that the container needs.
type Damage = fn(&Sandbox, &Port<'_>, &Value);

#[test]
fn check_notices_what_is_missing_without_ipam() {
    let damage: [(&str, Damage); 4] = [
        ("the interface", |_, port, _| drop(port.container.sh("ip link del eth0"))),
        ("its being up", |_, port, _| drop(port.container.sh("ip link set eth0 down"))),
        ("its place on the bridge", |sandbox, _, result| {
            sandbox.sh(&format!("ip link set {} nomaster", text(&result["interfaces"][1]["name"])));
        }),
        ("the bridge", |sandbox, _, _| drop(sandbox.sh("ip link del br0"))),
    ];
    for_each(damage, |break_it| {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", layer_two(json!({})));
        let result = port.add();
        break_it(&sandbox, &port, &result);
        port.call_check(&result).run().expect_error(100, "");
        port.del();
    });
}

/// The old versions have no word for a container without addresses. Go leaves the whole veth behind.
#[test]
fn versions_without_interfaces_in_their_result_refuse_a_network_without_ipam() {
    for version in ["0.1.0", "0.2.0"] {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", layer_two(json!({"cniVersion": version})));
        port.refused(2, &["cannot convert: no valid IP addresses", version]);
        port.del();
    }
}

#[test]
fn disable_container_interface_leaves_the_interface_down() {
    let sandbox = Sandbox::new();
    let before = State::of_host(&sandbox);
    let port = Port::new(&sandbox, "id1", layer_two(json!({"disableContainerInterface": true, "hairpinMode": true})));
    let result = port.add();
    let (inside, host_end) = (port.interface(), port.host_end(&result));
    assert_eq!((inside.up, host_end.up, host_end.hairpin), (false, true, Some(true)));
    assert_eq!(host_end.controller.as_deref(), Some("br0"));
    assert_eq!(result["interfaces"][2]["name"], "eth0");
    assert_eq!(result["interfaces"][2]["mac"], inside.mac);
    port.check(&result);
    port.container.sh("ip link set eth0 up");
    port.check(&result);
    port.del();
    port.shared().assert_nothing_else(&before, || State::of_host(&sandbox));
}

#[test]
fn disable_container_interface_needs_a_network_without_ipam() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], json!({"disableContainerInterface": true})));
    port.refused_at_once(7, &["cannot use IPAM when DisableContainerInterface flag is set"]);
    port.call(Verb::Del).run().expect_success();
}
