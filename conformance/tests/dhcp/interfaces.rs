//! Interfaces of other plugins than macvlan: each exists before a server is asked, and still exists when the address
//! is released.

use cni_conformance::traffic::ping_until_answered;
use cni_conformance::{Container, Network};
use serde_json::{Value, json};

use crate::dhcp::setup::{FIRST, Lan, PATIENCE, Server};

/// A host whose bridge leads to the server, with a list of this plugin alone.
fn lan(version: &str, plugin: &Value) -> Lan {
    let list = json!({"cniVersion": version, "name": "lan", "plugins": [plugin]});
    let lan = Lan::new(Server::Isc(20), list);
    if plugin["type"] == json!("bridge") {
        lan.sandbox.sh("ip link add br0 type bridge");
        lan.sandbox.sh("ip link set br0 up");
        lan.sandbox.sh("ip link set up0 master br0");
    }
    lan
}

/// The server has the address again, and neither interface nor record is left.
fn assert_released(lan: &Lan, container: &Container) {
    lan.await_log("DHCPRELEASE", 1);
    assert!(Network::observe(container).link("eth0").is_none());
    assert!(lan.records().is_empty());
}

#[test]
fn every_interface_that_is_on_a_network_gets_an_address() {
    for plugin in [
        json!({"type": "bridge", "bridge": "br0", "macspoofchk": true, "ipam": {"type": "dhcp"}}),
        json!({"type": "host-device", "device": "up0", "ipam": {"type": "dhcp"}}),
    ] {
        let lan = lan("1.0.0", &plugin);
        let (container, attachment) = lan.add("c1");
        assert_eq!(Network::observe(&container).addresses_of("eth0")[0], format!("{FIRST}/24"), "{plugin}");
        ping_until_answered(&container, "10.1.2.1".parse().expect("an address"), PATIENCE);
        lan.check(&attachment);
        lan.del(&attachment);
        assert_released(&lan, &container);
    }
}

/// GC of bridge removes the link, by which the address is released.
#[test]
fn gc_of_bridge_releases_the_address() {
    let lan = lan("1.1.0", &json!({"type": "bridge", "bridge": "br0", "ipam": {"type": "dhcp"}}));
    let (container, _lost) = lan.add("lost");
    lan.runtime().gc(&[]).expect_success();
    assert_released(&lan, &container);
}

/// What comes behind the lease fails: it is given back by the interface, which goes after that.
#[test]
fn a_bridge_that_fails_behind_the_lease_gives_it_back() {
    let lan = lan("0.4.0", &json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {"type": "dhcp"}}));
    lan.sandbox.sh("ip address add 10.1.2.77/24 dev br0");
    let (container, _, chain) = lan.try_to_add("c1");
    assert!(!chain.succeeded(), "{chain}");
    assert_released(&lan, &container);
}
