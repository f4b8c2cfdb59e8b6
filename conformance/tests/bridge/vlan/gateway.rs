//! The gateway of a VLAN: a link of the host to that VLAN of the bridge.

use std::net::IpAddr;

use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature, Network, Runtime, Sandbox, at_once};
use serde_json::{Value, json};

use super::{addressed, assert_does_not_reach, assert_reaches, attach, interface, vlans};

const GATEWAY: &str = "10.5.0.1";

/// A network with two families and a gateway in one VLAN.
fn with_gateway(vlan: u16) -> Value {
    let mut list = addressed(&format!("10.{vlan}.0.0/24"), &json!({"vlan": vlan, "isDefaultGateway": true}));
    let ranges = json!([[{"subnet": format!("10.{vlan}.0.0/24")}], [{"subnet": format!("fd00:{vlan}::/64")}]]);
    list["plugins"][0]["ipam"]["ranges"] = ranges;
    list
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The port at the other end of a link to a VLAN.
fn port_of(sandbox: &Sandbox, link: &str) -> String {
    let links: Value = serde_json::from_str(&sandbox.sh(&format!("ip -j link show dev {link}"))).expect("JSON");
    links[0]["link"].as_str().expect("a veth names its other end").to_owned()
}

#[test]
fn the_gateway_has_a_link_into_the_vlan_which_is_the_results_fourth_interface() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let (container, attachment) = attach(&sandbox, &with_gateway(5), "c1");
        let network = Network::observe(sandbox.host());
        let link = network.link("br0.5").expect("the link is there");
        assert_eq!((link.kind.as_deref(), link.up, link.mtu), (Some("veth"), true, 1500));
        let result = attachment.result.as_ref().expect("attached");
        let interfaces = result["interfaces"].as_array().expect("a list");
        assert_eq!(interfaces.len(), 4, "{result}");
        assert_eq!(interfaces[3], json!({"name": "br0.5", "mac": link.mac}));
        assert!(result["ips"].as_array().expect("a list").iter().all(|ip| ip["interface"] == 2), "{result}");

        assert_eq!(network.addresses_of("br0.5"), ["10.5.0.1/24", "fd00:5::1/64"]);
        assert_eq!(network.addresses_of("br0"), [""; 0]);
        assert_eq!(sandbox.sysctl("net/ipv6/conf/br0.5/accept_ra"), "0");
        let port = port_of(&sandbox, "br0.5");
        assert_eq!(vlans(&sandbox, &port), ["5 pvid untagged"]);
        let port = network.link(&port).expect("the port is there");
        assert_eq!((port.controller.as_deref(), port.hairpin, port.isolated), (Some("br0"), Some(false), Some(false)));
        assert_reaches(&container, ip(GATEWAY));
        assert_reaches(&container, ip("fd00:5::1"));
    });
}

#[test]
fn the_gateways_of_two_vlans_are_separate_and_forward_between_them() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let (five, _) = attach(&sandbox, &with_gateway(5), "five");
        let (seven, seven_at) = attach(&sandbox, &with_gateway(7), "seven");
        assert_reaches(&five, ip(GATEWAY));
        assert_reaches(&seven, ip("10.7.0.1"));
        assert_reaches(&five, super::address(&seven_at));
        sandbox.set_sysctl("net/ipv4/ip_forward", "0");
        assert_does_not_reach(&five, super::address(&seven_at));
    });
}

#[test]
fn the_gateway_has_the_mtu_of_the_bridge_and_keeps_the_default_vlan_if_asked() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let mut list = with_gateway(5);
        list["plugins"][0]["mtu"] = json!(1400);
        list["plugins"][0]["preserveDefaultVlan"] = json!(true);
        list["plugins"][0]["vlanTrunk"] = json!([{"id": 20}]);
        let (_, attachment) = attach(&sandbox, &list, "c1");
        assert_eq!(vlans(&sandbox, &interface(&attachment, 1)), ["1 untagged", "5 pvid untagged", "20"]);
        let port = port_of(&sandbox, "br0.5");
        assert_eq!(vlans(&sandbox, &port), ["1 untagged", "5 pvid untagged"]);
        let network = Network::observe(sandbox.host());
        for name in ["br0.5", &port] {
            assert_eq!(network.link(name).expect("a link").mtu, 1400, "{name}");
        }
    });
}

#[test]
fn later_containers_use_the_same_link_and_del_leaves_it() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let list = with_gateway(5);
        let index = || Network::observe(sandbox.host()).link("br0.5").map(|link| link.index);
        let (_, first) = attach(&sandbox, &list, "c1");
        let made = index();
        let (container, second) = attach(&sandbox, &list, "c2");
        assert_eq!(index(), made);
        let runtime = Runtime::new(&sandbox, list);
        runtime.del(&first).expect_success();
        runtime.del(&first).expect_success();
        assert_eq!(index(), made);
        assert_reaches(&container, ip(GATEWAY));
        runtime.check(&second).expect_success();
    });
}

#[test]
fn parallel_first_containers_share_one_link() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let containers: Vec<_> = (1..=4).map(|number| sandbox.container(&format!("c{number}"))).collect();
        let runtime = Runtime::new(&sandbox, with_gateway(5));
        let additions = containers.iter().map(|container| {
            let attachment = Attachment::new(container.name(), container);
            runtime.invocation(cni_conformance::Verb::Add, "bridge", &attachment, None)
        });
        for outcome in at_once(&additions.collect::<Vec<_>>()) {
            outcome.expect_success();
        }
        for container in &containers {
            assert_reaches(container, ip(GATEWAY));
        }
        let ports = Network::observe(sandbox.host());
        let ports = ports.links.iter().filter(|link| link.controller.is_some()).count();
        assert_eq!(ports, 5, "one port for each container, and one for the host");
    });
}

// The reference takes whatever has the name, and the VLAN stays without a gateway.
#[test]
fn a_link_that_is_not_connected_to_the_bridge_is_connected() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        sandbox.sh("ip link add br0.5 type veth peer name half-made");
        let (first, _) = attach(&sandbox, &with_gateway(5), "c1");
        assert_eq!(vlans(&sandbox, "half-made"), ["5 pvid untagged"]);
        assert_reaches(&first, ip(GATEWAY));

        sandbox.sh("ip link del br0");
        let (second, _) = attach(&sandbox, &with_gateway(5), "c2");
        assert_reaches(&second, ip(GATEWAY));
    });
}

// The reference does not set it up.
#[test]
fn a_link_of_the_administrators_own_is_used_as_it_is_and_set_up() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        sandbox.sh("ip link add br0 type bridge vlan_filtering 1");
        sandbox.sh("ip link set br0 up");
        sandbox.sh("bridge vlan add dev br0 vid 5 self");
        sandbox.sh("ip link add link br0 name br0.5 type vlan id 5");
        let (container, attachment) = attach(&sandbox, &with_gateway(5), "c1");
        let network = Network::observe(sandbox.host());
        assert_eq!(network.link("br0.5").and_then(|link| link.kind.clone()).as_deref(), Some("vlan"));
        assert_eq!(network.addresses_of("br0.5"), ["10.5.0.1/24", "fd00:5::1/64"]);
        assert_eq!(interface(&attachment, 3), "br0.5");
        assert_reaches(&container, ip(GATEWAY));
    });
}

#[test]
fn a_trunk_without_a_vlan_of_its_own_has_its_gateway_on_the_bridge() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let list = addressed("10.5.0.0/24", &json!({"vlanTrunk": [{"id": 5}], "isGateway": true}));
        let (container, attachment) = attach(&sandbox, &list, "c1");
        assert_eq!(Network::observe(sandbox.host()).addresses_of("br0"), ["10.5.0.1/24"]);
        assert_eq!(attachment.result.expect("attached")["interfaces"].as_array().map(Vec::len), Some(3));
        assert_reaches(&container, ip(GATEWAY));
    });
}
