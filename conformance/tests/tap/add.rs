//! What ADD makes, and what it answers in each version.

use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use cni_conformance::{Attachment, ListHost, Network, page};
use serde_json::json;

use crate::tap::setup::{addressed, list};

#[test]
fn the_device_is_in_the_container_with_its_addresses() {
    let host = ListHost::new(addressed(&json!({"mtu": 1400, "mac": "02:00:00:00:00:0a"})));
    let (container, attachment) = host.add("id1");
    let inside = Network::observe(&container);
    let link = inside.link("eth0").expect("eth0");
    assert_eq!((link.mac.as_str(), link.mtu, link.up), ("02:00:00:00:00:0a", 1400, true));
    let mut own = inside.addresses_of("eth0");
    own.retain(|address| !address.starts_with("fe80"));
    assert_eq!(own, ["10.1.2.2/24", "fd00:1::2/64"]);
    assert!(inside.routes.iter().any(|route| route.to_string().starts_with("10.9.0.0/16 via 10.1.2.1 dev eth0")));
    let result = attachment.result.as_ref().expect("a result");
    let want = json!([{"name": "eth0", "mac": "02:00:00:00:00:0a", "sandbox": container.path()}]);
    assert_eq!(result["interfaces"], want);
    assert!(result["ips"].as_array().expect("addresses").iter().all(|ip| ip["interface"] == json!(0)));
    assert_eq!(container.sh("cat /proc/sys/net/ipv4/conf/eth0/arp_notify").trim(), "1");
    host.check(&attachment);
}

#[test]
fn without_ipam_it_is_up_and_has_no_address() {
    for ipam in [json!({}), json!(null), json!({"type": ""})] {
        let host = ListHost::new(list(&json!({"ipam": ipam, "dns": {"domain": "own"}})));
        let (container, attachment) = host.add("id1");
        let inside = Network::observe(&container);
        assert!(inside.link("eth0").expect("eth0").up);
        assert!(inside.addresses_of("eth0").is_empty());
        assert_eq!(attachment.result.as_ref().expect("a result")["dns"], json!({"domain": "own"}));
        host.check(&attachment);
    }
}

#[test]
fn every_version_that_can_say_it_answers_in_its_own_shape() {
    for_each(["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"].map(|v| (v, v)), |version| {
        let mut list = addressed(&json!({}));
        list["cniVersion"] = json!(version);
        let host = ListHost::new(list);
        let (container, attachment) = host.add("id1");
        let result = attachment.result.as_ref().expect("a result");
        let first = if version < "0.3.0" { &result["ip4"]["ip"] } else { &result["ips"][0]["address"] };
        assert_eq!(*first, json!("10.1.2.2/24"), "{result}");
        host.del(&attachment);
        assert!(Network::observe(&container).link("eth0").is_none());
    });
}

/// The reference takes it from one of its two ways of making the device, and drops it in the other.
#[test]
fn the_mac_address_is_the_runtimes_then_that_of_the_arguments_then_the_configurations() {
    let own = json!({"mac": "02:00:00:00:00:0a", "owner": 0, "group": 0});
    let runtime = with(&own, &json!({"runtimeConfig": {"mac": "02:00:00:00:00:0c"}}));
    let cases = [
        ("configuration", (own.clone(), "", "02:00:00:00:00:0a")),
        ("arguments", (own, "IgnoreUnknown=1;MAC=02:00:00:00:00:0b", "02:00:00:00:00:0b")),
        ("runtime", (runtime, "IgnoreUnknown=1;MAC=02:00:00:00:00:0b", "02:00:00:00:00:0c")),
    ];
    for_each(cases, |(keys, args, want)| {
        let host = ListHost::new(list(&keys));
        let container = host.sandbox.container("id1");
        let mut attachment = Attachment::new("id1", &container).args(args);
        host.runtime().add(&mut attachment).expect_success();
        assert_eq!(Network::observe(&container).link("eth0").expect("eth0").mac, want);
        host.check(&attachment);
    });
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let host =
        ListHost::new(page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/tap/README.md"))));
    let container = host.sandbox.container("id1");
    let before = host.state_with(&[&container]);
    let mut attachment = Attachment::new("id1", &container);
    host.runtime().add(&mut attachment).expect_success();
    let details = crate::tap::setup::details(&container);
    assert!(
        details.contains("type tap") && details.contains(" multi_queue ") && details.contains(" user "),
        "{details}"
    );
    host.check(&attachment);
    host.del(&attachment);
    host.is_as_before(&before, &[&container]);
}
