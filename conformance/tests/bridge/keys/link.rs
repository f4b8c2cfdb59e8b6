//! `bridge`, `mtu`, `hairpinMode`, `promiscMode`: the bridge and the veth pair themselves.

use cni_conformance::cases::for_each;
use cni_conformance::{Network, Sandbox};
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, layer_two, link, network, text};

#[test]
fn bridge_names_the_bridge_that_is_made_and_cni0_is_the_default() {
    let fifteen = "a.bridge-of-15b";
    for_each(
        [("absent", None), ("null", Some(Value::Null)), ("cni9", Some(json!("cni9"))), ("long", Some(json!(fifteen)))],
        |name| {
            let sandbox = Sandbox::new();
            let mut config = layer_two(json!({}));
            match &name {
                Some(name) => config["bridge"] = name.clone(),
                None => drop(config.as_object_mut().expect("an object").remove("bridge")),
            }
            let expected = name.as_ref().and_then(Value::as_str).unwrap_or("cni0");
            let port = Port::new(&sandbox, "id1", config);
            let result = port.add();
            let bridge = link(&Network::observe(sandbox.host()), expected);
            assert_eq!((bridge.kind.as_deref(), bridge.up), (Some("bridge"), true), "{bridge}");
            assert_eq!(port.host_end(&result).controller.as_deref(), Some(expected));
            assert_eq!(result["interfaces"][0]["name"], expected);
        },
    );
}

/// CVE-2020-10749: a container must not become the host's router.
#[test]
fn neither_the_bridge_nor_its_port_listens_to_router_advertisements() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], json!({})));
    let result = port.add();
    for name in ["br0", text(&result["interfaces"][1]["name"])] {
        assert_eq!(sandbox.sysctl(&format!("net/ipv6/conf/{name}/accept_ra")), "0", "{name}");
    }
}

#[test]
fn both_ends_of_the_veth_are_up_and_the_hosts_one_is_a_port_of_the_bridge() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], json!({})));
    let result = port.add();
    let (inside, host_end) = (port.interface(), port.host_end(&result));
    for end in [&inside, &host_end] {
        assert_eq!((end.kind.as_deref(), end.up, end.mtu), (Some("veth"), true, 1500), "{end}");
    }
    assert_eq!(host_end.controller.as_deref(), Some("br0"), "{host_end}");
    let digits = host_end.name.strip_prefix("veth").expect("the name begins with veth");
    assert!(digits.len() == 8 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte)), "{host_end}");
    port.del();
    let host = Network::observe(sandbox.host());
    assert!(host.link(&host_end.name).is_none() && host.link("br0").is_some());
}

#[test]
fn mtu_is_that_of_both_ends_and_of_a_bridge_that_is_made() {
    for_each([("1280", (1280, 1280)), ("9000", (9000, 9000)), ("0", (0, 1500)), ("-1", (-1, 1500))], |(mtu, seen)| {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", layer_two(json!({"mtu": mtu})));
        let result = port.add();
        for link in [port.interface(), port.host_end(&result), port.bridge()] {
            assert_eq!(link.mtu, seen, "{link}");
        }
        port.check(&result);
    });
}

/// A smaller one for a later container is that container's alone; what the bridge does then is the
/// kernel's business, unless somebody has set its MTU.
#[test]
fn mtu_does_not_change_a_bridge_that_is_there() {
    let sandbox = Sandbox::new();
    sandbox.sh("ip link add br0 type bridge");
    sandbox.sh("ip link set br0 mtu 1450");
    let port = Port::new(&sandbox, "id1", layer_two(json!({"mtu": 1300})));
    let result = port.add();
    assert_eq!((port.bridge().mtu, port.interface().mtu, port.host_end(&result).mtu), (1450, 1300, 1300));
    let second = Port::new(&sandbox, "id2", layer_two(json!({"mtu": 1400})));
    second.add();
    assert_eq!((port.bridge().mtu, port.interface().mtu, second.interface().mtu), (1450, 1300, 1400));
}

#[test]
fn hairpin_mode_is_that_of_the_port() {
    for_each(
        [("absent", json!({})), ("false", json!({"hairpinMode": false})), ("true", json!({"hairpinMode": true}))],
        {
            |keys| {
                let sandbox = Sandbox::new();
                let on = keys["hairpinMode"] == true;
                let port = Port::new(&sandbox, "id1", layer_two(keys));
                let result = port.add();
                let host_end = port.host_end(&result);
                assert_eq!((host_end.hairpin, host_end.isolated), (Some(on), Some(false)), "{host_end}");
                assert!(!port.bridge().promiscuous);
                let second = Port::new(&sandbox, "id2", layer_two(json!({"hairpinMode": !on})));
                let other = second.add();
                assert_eq!((port.host_end(&result).hairpin, second.host_end(&other).hairpin), (Some(on), Some(!on)));
            }
        },
    );
}

/// A later container without the key does not take it away: the first one still needs it.
#[test]
fn promisc_mode_is_that_of_the_bridge_and_stays() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", layer_two(json!({"promiscMode": true})));
    let result = port.add();
    assert!(port.bridge().promiscuous && port.host_end(&result).hairpin == Some(false));
    Port::new(&sandbox, "id2", layer_two(json!({"promiscMode": false}))).add();
    assert!(port.bridge().promiscuous);
    port.check(&result);
    sandbox.sh("ip link set br0 promisc off");
    port.call_check(&result).run().expect_error(100, "br0");
}

#[test]
fn promisc_mode_is_set_on_a_bridge_that_is_there() {
    let sandbox = Sandbox::new();
    Port::new(&sandbox, "id1", layer_two(json!({}))).add();
    let second = Port::new(&sandbox, "id2", layer_two(json!({"promiscMode": true})));
    assert!(!second.bridge().promiscuous);
    second.add();
    assert!(second.bridge().promiscuous);
}

#[test]
fn hairpin_mode_and_promisc_mode_exclude_each_other() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], json!({"hairpinMode": true, "promiscMode": true})));
    port.refused_at_once(7, &["hairpin mode", "promiscuous mode"]);
    port.del();
}
