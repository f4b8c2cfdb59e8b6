//! What the server says is what the container gets, and what the configuration says is what the server gets.

use cni_conformance::Attachment;
use cni_conformance::page;
use serde_json::json;

use crate::dhcp::setup::{Lan, Server, list, newest};

const OPTIONS: [&str; 5] = [
    "--dhcp-option=3,10.1.2.1",
    "--dhcp-option=6,192.0.2.53,192.0.2.54",
    "--dhcp-option=15,example.org",
    "--dhcp-option=119,a.example.org,b.example.org",
    "--dhcp-option=26,1400",
];

/// The reference tells nothing of name servers, domains and the MTU.
#[test]
fn name_resolution_and_mtu_are_the_servers() {
    let lan = Lan::new(Server::Dnsmasq(&OPTIONS), newest(list(&json!({}))));
    let (container, attachment) = lan.add("c1");
    let result = attachment.result.as_ref().expect("a result");
    let dns = json!({
        "nameservers": ["192.0.2.53", "192.0.2.54"], "domain": "example.org", "search": ["a.example.org", "b.example.org"],
    });
    assert_eq!(result["dns"], dns);
    assert_eq!(result["routes"], json!([{"dst": "0.0.0.0/0", "gw": "10.1.2.1", "mtu": 1400}]));
    let routes = container.must(&["ip", "route", "show", "default"]);
    assert!(routes.contains("via 10.1.2.1 dev eth0 mtu 1400"), "{routes}");
    lan.check(&attachment);
    lan.del(&attachment);
}

#[test]
fn classless_routes_stand_for_all_when_they_are_asked_for() {
    let options = ["--dhcp-option=3,10.1.2.1", "--dhcp-option=121,10.9.0.0/16,10.1.2.9,169.254.169.254/32,0.0.0.0"];
    let lan =
        Lan::new(Server::Dnsmasq(&options), newest(list(&json!({"request": [{"option": "121"}], "priority": 7}))));
    let (container, attachment) = lan.add("c1");
    let result = attachment.result.as_ref().expect("a result");
    let want = json!([
        {"dst": "10.9.0.0/16", "gw": "10.1.2.9", "priority": 7},
        {"dst": "169.254.169.254/32", "gw": "0.0.0.0", "priority": 7, "scope": 253},
    ]);
    assert_eq!(result["routes"], want);
    let routes = container.must(&["ip", "route"]);
    assert!(routes.contains("10.9.0.0/16 via 10.1.2.9 dev eth0 metric 7"), "{routes}");
    assert!(routes.contains("169.254.169.254 dev eth0 scope link metric 7"), "{routes}");
    lan.check(&attachment);
    lan.del(&attachment);
}

/// The name is the one that the runtime gives.
#[test]
fn the_example_of_the_page_does_what_it_says() {
    let mut list = page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/dhcp/README.md")));
    list["plugins"][0]["master"] = json!("up0");
    let lan = Lan::new(Server::Dnsmasq(&[]), list);
    for (args, name) in [("", "web"), ("IgnoreUnknown=1;K8S_POD_NAME=other", "other")] {
        let container = lan.sandbox.container(name);
        let mut attachment = Attachment::new(name, &container).args(args);
        lan.runtime().add(&mut attachment).expect_success();
        lan.check(&attachment);
        lan.await_log(&format!("client provides name: {name}"), 1);
        lan.del(&attachment);
    }
    lan.await_log("DHCPRELEASE", 2);
}
