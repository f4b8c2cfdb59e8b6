//! The interface carries the container's packets, and the host's again when it is back.

use std::time::Duration;

use cni_conformance::traffic::ping_until_answered;
use serde_json::json;

use crate::host_device::setup::{addressed, host};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn what_the_interface_led_to_is_reached_from_the_container_and_then_from_the_host_again() {
    let host = host(addressed());
    let outside = host.sandbox.container("outside");
    host.sandbox.sh(&format!("ip link set far netns {}", outside.name()));
    outside.sh("ip link set far up");
    outside.sh("ip address add 10.1.2.1/24 dev far");
    outside.sh("ip address add fd00:1::1/64 dev far nodad");
    let (container, attachment) = host.add("id1");
    for gateway in ["10.1.2.1", "fd00:1::1"] {
        ping_until_answered(&container, gateway.parse().expect("an address"), PATIENCE);
    }
    host.del(&attachment);
    host.sandbox.sh("ip address add 10.1.2.9/24 dev br9");
    ping_until_answered(host.sandbox.host(), "10.1.2.1".parse().expect("an address"), PATIENCE);
}

/// Before the address is used: another host has it.
#[test]
fn an_ipv6_address_that_another_host_has_is_not_used() {
    let mut host = host(addressed());
    host.list["plugins"][0]["ipam"] =
        json!({"type": "static", "addresses": [{"address": "fd00:1::5/64", "gateway": "fd00:1::1"}]});
    let outside = host.sandbox.container("outside");
    host.sandbox.sh(&format!("ip link set far netns {}", outside.name()));
    outside.sh("ip link set far up");
    outside.sh("ip address add fd00:1::5/64 dev far nodad");
    let before = host.state();
    let chain = host.try_to_add("id1");
    let error = chain.step("host-device").error();
    assert!(format!("{} {}", error.msg, error.details).contains("DADFAILED"), "{chain}");
    host.is_as_before(&before, &[]);
}
