//! Interfaces of other plugins than macvlan: each exists before a server is asked, and still exists when the address
//! is released.

use cni_conformance::cases::for_each;
use cni_conformance::traffic::ping_until_answered;
use cni_conformance::{Attachment, Network};
use serde_json::json;

use crate::dhcp::setup::{FIRST, Lan, PATIENCE, Server};

#[test]
fn every_interface_that_is_on_a_network_gets_an_address() {
    let dhcp = json!({"type": "dhcp"});
    let cases = [
        ("bridge", json!({"type": "bridge", "bridge": "br0", "ipam": dhcp})),
        ("bridge, checked", json!({"type": "bridge", "bridge": "br0", "macspoofchk": true, "ipam": dhcp})),
        ("host-device", json!({"type": "host-device", "device": "up0", "ipam": dhcp})),
    ];
    for_each(cases, |plugin| {
        let list = json!({"cniVersion": "1.0.0", "name": "lan", "plugins": [plugin]});
        let lan = Lan::new(Server::Isc(20), list);
        if plugin["type"] == json!("bridge") {
            lan.sandbox.sh("ip link add br0 type bridge");
            lan.sandbox.sh("ip link set br0 up");
            lan.sandbox.sh("ip link set up0 master br0");
        }
        let (container, attachment) = lan.add("c1");
        assert_eq!(Network::observe(&container).addresses_of("eth0")[0], format!("{FIRST}/24"));
        ping_until_answered(&container, "10.1.2.1".parse().expect("an address"), PATIENCE);
        lan.check(&attachment);
        lan.del(&attachment);
        lan.await_log("DHCPRELEASE", 1);
        assert!(Network::observe(&container).link("eth0").is_none());
        assert!(lan.records().is_empty());
    });
}

/// GC of bridge removes the link, by which the address is released.
#[test]
fn gc_of_bridge_releases_the_address() {
    let plugin = json!({"type": "bridge", "bridge": "br0", "ipam": {"type": "dhcp"}});
    let lan = Lan::new(Server::Isc(20), json!({"cniVersion": "1.1.0", "name": "lan", "plugins": [plugin]}));
    lan.sandbox.sh("ip link add br0 type bridge");
    lan.sandbox.sh("ip link set br0 up");
    lan.sandbox.sh("ip link set up0 master br0");
    let (container, _lost) = lan.add("lost");
    lan.runtime().gc(&[]).expect_success();
    lan.await_log("DHCPRELEASE", 1);
    assert!(Network::observe(&container).link("eth0").is_none());
    assert!(lan.records().is_empty());
}

/// What comes behind the lease fails: it is given back by the interface, which goes after that.
#[test]
fn a_bridge_that_fails_behind_the_lease_gives_it_back() {
    let plugin = json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {"type": "dhcp"}});
    let lan = Lan::new(Server::Isc(20), json!({"cniVersion": "0.4.0", "name": "lan", "plugins": [plugin]}));
    lan.sandbox.sh("ip link add br0 type bridge");
    lan.sandbox.sh("ip link set br0 up");
    lan.sandbox.sh("ip link set up0 master br0");
    lan.sandbox.sh("ip address add 10.1.2.77/24 dev br0");
    let container = lan.sandbox.container("c1");
    let chain = lan.runtime().add(&mut Attachment::new("c1", &container));
    assert!(!chain.succeeded(), "{chain}");
    lan.await_log("DHCPRELEASE", 1);
    assert!(Network::observe(&container).link("eth0").is_none());
    assert!(lan.records().is_empty());
}
