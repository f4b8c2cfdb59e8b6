//! What ADD changes of the interface, its result, and ADDs that fail.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, Network, page};
use serde_json::json;

use crate::host_device::setup::{MAC, addressed, by_name, has, host, list};

#[test]
fn the_interface_is_in_the_container_under_its_new_name() {
    for_each([("without addresses", by_name()), ("with addresses", addressed())], |list| {
        let host = host(list);
        let (container, attachment) = host.add("id1");
        assert!(!has(host.sandbox.host(), "ens1"));
        let inside = Network::observe(&container);
        let link = inside.link("eth0").expect("eth0");
        // The reference finds the name of the host there.
        assert_eq!((link.mac.as_str(), link.mtu, link.up, link.alias.as_deref()), (MAC, 1400, true, Some("ens1")));
        let result = attachment.result.as_ref().expect("a result");
        assert_eq!(result["interfaces"], json!([{"name": "eth0", "mac": MAC, "sandbox": container.path()}]));
        host.check(&attachment);
    });
}

#[test]
fn addresses_and_routes_are_those_of_the_ipam_plugin() {
    let host = host(addressed());
    host.sandbox.sh("ip address add 192.0.2.7/24 dev ens1");
    let (container, attachment) = host.add("id1");
    let inside = Network::observe(&container);
    let mut own = inside.addresses_of("eth0");
    own.retain(|address| !address.starts_with("fe80"));
    assert_eq!(own, ["10.1.2.2/24", "fd00:1::2/64"]);
    assert!(inside.routes.iter().any(|route| route.to_string().starts_with("10.9.0.0/16 via 10.1.2.1 dev eth0")));
    let result = attachment.result.as_ref().expect("a result");
    assert!(result["ips"].as_array().expect("addresses").iter().all(|ip| ip["interface"] == json!(0)));
}

#[test]
fn an_interface_is_named_by_another_name_or_by_its_address() {
    let cases = [
        ("another name", json!({"device": "a-name-of-more-than-fifteen-bytes"})),
        ("address", json!({"hwaddr": MAC})),
        ("address in another spelling", json!({"hwaddr": "0200.0000.000A"})),
    ];
    for_each(cases, |keys| {
        let host = host(list(&keys));
        host.sandbox.sh("ip link property add dev ens1 altname a-name-of-more-than-fifteen-bytes");
        let before = host.state();
        let (container, attachment) = host.add("id1");
        assert!(has(&container, "eth0"));
        host.del(&attachment);
        host.is_as_before(&before, &[]);
    });
}

/// The reference takes the first of them.
#[test]
fn an_address_that_several_interfaces_have_is_refused() {
    let host = host(list(&json!({"hwaddr": MAC})));
    host.sandbox.sh(&format!("ip link add over address {MAC} type bridge"));
    let before = host.state();
    let error = host.try_to_add("id1").expect_error("host-device", 7, "2 interfaces have the address");
    assert!(error.details.contains("ens1") && error.details.contains("over"), "{}", error.details);
    host.is_as_before(&before, &[]);
}

#[test]
fn what_cannot_be_moved_stays_as_it_was() {
    let cases = [
        ("none", ("ens9", 7, "failed to find host device: Link not found")),
        ("lo", ("lo", 101, "failed to move \"lo\"")),
        ("a bridge", ("br9", 101, "failed to move \"br9\"")),
    ];
    for_each(cases, |(device, code, says)| {
        let host = host(list(&json!({"device": device})));
        let before = host.state();
        host.try_to_add("id1").expect_error("host-device", code, says);
        host.is_as_before(&before, &[]);
    });
}

#[test]
fn a_name_that_the_container_has_is_refused_before_the_interface_is_touched() {
    let host = host(by_name());
    let container = host.sandbox.container("id1");
    container.sh("ip link add eth0 type bridge");
    let before = host.state();
    let chain = host.runtime().add(&mut Attachment::new("id1", &container));
    chain.expect_error("host-device", 103, "file exists");
    host.is_as_before(&before, &[]);
}

/// A name of the interface itself, which is not the one that is wanted.
#[test]
fn a_name_of_the_host_may_be_taken_in_the_container() {
    let host = host(by_name());
    let container = host.sandbox.container("id1");
    container.sh("ip link add ens1 type bridge");
    let before = host.state();
    let mut attachment = Attachment::new("id1", &container);
    host.runtime().add(&mut attachment).expect_success();
    assert!(has(&container, "ens1") && has(&container, "eth0"));
    host.del(&attachment);
    host.is_as_before(&before, &[]);
}

/// The reference leaves the interface in the container.
#[test]
fn an_add_that_gets_no_address_gives_the_interface_back() {
    let mut full = addressed();
    full["plugins"][0]["ipam"]["ranges"] =
        json!([[{"subnet": "10.1.2.0/24", "rangeEnd": "10.1.2.1", "gateway": "10.1.2.1"}]]);
    let cases = [
        ("no address is free", (full, 102, "no IP addresses available")),
        (
            "no such IPAM plugin",
            (list(&json!({"device": "ens1", "ipam": {"type": "none"}})), 104, "failed to find plugin"),
        ),
        ("a version that needs an address", (by_name_in("0.2.0"), 2, "cannot convert: no valid IP addresses")),
    ];
    for_each(cases, |(list, code, says)| {
        let host = host(list);
        let before = host.state();
        host.try_to_add("id1").expect_error("host-device", code, says);
        host.is_as_before(&before, &[]);
    });
}

fn by_name_in(version: &str) -> serde_json::Value {
    let mut list = by_name();
    list["cniVersion"] = json!(version);
    list
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let host =
        host(page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/host-device/README.md"))));
    let before = host.state();
    let (container, attachment) = host.add("id1");
    assert_eq!(Network::observe(&container).addresses_of("eth0")[0], "10.1.2.5/24");
    host.check(&attachment);
    host.del(&attachment);
    host.is_as_before(&before, &[]);
}
