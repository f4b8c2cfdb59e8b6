//! A link of the bridge's name that is there already.

use cni_conformance::{Network, Sandbox};
use serde_json::json;

use crate::bridge::setup::{Port, V4, layer_two, link, network};

/// The administrator may have given it any address, name server or port.
#[test]
fn a_bridge_that_is_there_is_used_as_it_is() {
    let sandbox = Sandbox::new();
    sandbox.sh("ip link add br0 address 02:00:00:00:00:aa type bridge ageing_time 12300 forward_delay 400");
    sandbox.sh("ip link add own0 master br0 type veth peer name own1");
    sandbox.sh("ip link set br0 alias administrator");
    let settings = || sandbox.sh("ip -d link show br0").lines().nth(2).map(str::to_owned);
    let (index, before) = (link(&Network::observe(sandbox.host()), "br0").index, settings());
    let port = Port::new(&sandbox, "id1", network(&[V4], json!({"isGateway": true, "mtu": 1400})));
    let result = port.add();
    let bridge = port.bridge();
    assert_eq!((bridge.index, bridge.mac.as_str()), (index, "02:00:00:00:00:aa"), "{bridge}");
    assert_eq!(bridge.alias.as_deref(), Some("administrator"));
    assert_eq!(settings().map(|text| fixed(&text)), before.map(|text| fixed(&text)));
    assert!(bridge.up, "a bridge that was down is set up: {bridge}");
    assert_eq!(result["interfaces"][0]["mac"], "02:00:00:00:00:aa");
    port.check(&result);
    port.del();
    let own = Network::observe(sandbox.host()).link("own0").expect("the administrator's port").clone();
    assert_eq!(own.controller.as_deref(), Some("br0"));
}

/// Leaves out what changes with ports and time.
fn fixed(settings: &str) -> String {
    let mut words = settings.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let passing = word.ends_with("_timer") || word.starts_with("root_") || word.starts_with("topology_change");
        if passing {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// Go sets it to promiscuous mode before it looks what it is.
#[test]
fn a_link_that_is_no_bridge_is_refused_and_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.sh("ip link add br0 type veth peer name other");
    for keys in [json!({}), json!({"promiscMode": true}), json!({"isGateway": true, "mtu": 1400})] {
        let port = Port::new(&sandbox, "id1", network(&[V4], keys));
        port.refused(103, &["\"br0\" already exists but is not a bridge", "veth"]);
        let link = port.bridge();
        assert_eq!((link.up, link.promiscuous, link.mtu), (false, false, 1500), "{link}");
        port.del();
        port.container.remove();
    }
}

#[test]
fn the_bridge_outlives_its_last_container_and_serves_the_next() {
    let sandbox = Sandbox::new();
    let config = network(&[V4], json!({"isGateway": true, "ipMasq": true}));
    let first = Port::new(&sandbox, "id1", config.clone());
    first.add();
    let before = first.bridge();
    first.del();
    assert_eq!(first.bridge(), before);
    let second = Port::new(&sandbox, "id2", config);
    let result = second.add();
    second.check(&result);
    assert_eq!(first.bridge(), before);
}

/// Go: the MAC address of a bridge without gateway follows its ports, so CHECK of an earlier
/// container fails; one whose last port left has none, and the next gateway fails.
#[test]
fn the_bridge_keeps_its_mac_while_containers_come_and_go() {
    let sandbox = Sandbox::new();
    let macs = ["fe:ff:ff:ff:ff:ff", "02:00:00:00:00:01"];
    let ports = ["id1", "id2"].map(|id| Port::new(&sandbox, id, network(&[V4], json!({}))));
    let result = ports[0].add();
    let mac = ports[0].bridge().mac;
    for mac_of_port in macs {
        ports[1].add();
        sandbox.sh(&format!(
            "ip link set {} address {mac_of_port}",
            result["interfaces"][1]["name"].as_str().expect("a name")
        ));
        assert_eq!(ports[0].bridge().mac, mac);
        ports[0].check(&result);
        ports[1].del();
    }
    ports[0].del();
    assert_eq!(ports[0].bridge().mac, mac);
    let gateway = Port::new(&sandbox, "id3", network(&[V4], json!({"isGateway": true})));
    let result = gateway.add();
    assert_eq!(gateway.bridge().mac, mac);
    gateway.check(&result);
}

/// The kernel takes the carrier of a bridge away with any change of its MAC address, and gives it back when a port passes
/// packets. Here the only one does not.
#[test]
fn a_new_bridge_has_its_link_local_address_at_once() {
    let sandbox = Sandbox::new();
    Port::new(&sandbox, "id1", layer_two(json!({"disableContainerInterface": true}))).add();
    let addresses = sandbox.sh("ip -6 addr show dev br0 scope link");
    assert!(addresses.contains("fe80:"), "{addresses}");
}
