//! A container's address, from its lease to its release.

use cni_conformance::Network;
use cni_conformance::traffic::ping_until_answered;
use serde_json::json;

use crate::dhcp::setup::{FIRST, Lan, PATIENCE, Server, list};

/// The reference's release never reaches a server that has an ordinary socket.
#[test]
fn a_lease_is_obtained_used_checked_and_released() {
    for server in [Server::Dnsmasq(&["--dhcp-option=3,10.1.2.1"]), Server::Isc(20)] {
        let lan = Lan::new(server, list(&json!({})));
        let (container, attachment) = lan.add("c1");
        let result = attachment.result.as_ref().expect("a result");
        assert_eq!(result["ips"], json!([{"address": format!("{FIRST}/24"), "gateway": "10.1.2.1", "interface": 0}]));
        assert_eq!(result["routes"], json!([{"dst": "0.0.0.0/0", "gw": "10.1.2.1"}]));
        assert_eq!(Network::observe(&container).addresses_of("eth0")[0], format!("{FIRST}/24"));
        ping_until_answered(&container, "10.1.2.1".parse().expect("an address"), PATIENCE);
        lan.check(&attachment);
        lan.del(&attachment);
        lan.await_log("DHCPRELEASE", 1);
        lan.del(&attachment);
        let (_, attachment) = lan.add("c2");
        lan.del(&attachment);
    }
}
