//! The list of Nomad's users with addresses by DHCP: macvlan, dhcp, portmap.

use cni_conformance::{Attachment, Network, PortMapping, Spelling};
use serde_json::json;

use crate::dhcp::setup::{FIRST, Lan, Server};

#[test]
fn a_job_on_the_lan_gets_its_address_and_gives_it_back() {
    let main = json!({"type": "macvlan", "master": "up0", "ipam": {"type": "dhcp"}});
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}, "snat": true});
    let list = json!({"cniVersion": "1.0.0", "name": "mynet", "plugins": [main, portmap]});
    let lan = Lan::new(Server::Dnsmasq(&[]), list);
    let container = lan.sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container).ports(&PortMapping::twins(8080, 80), Spelling::Go);
    lan.runtime().add(&mut attachment).expect_success();
    lan.check(&attachment);
    assert_eq!(Network::observe(&container).addresses_of("eth0")[0], format!("{FIRST}/24"));
    lan.del(&attachment);
    lan.await_log("DHCPRELEASE", 1);
}
