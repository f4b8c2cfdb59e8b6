//! `enabledad`: another host has the address already.

use std::time::Duration;

use cni_conformance::Sandbox;
use cni_conformance::cases::one_of_three_within;
use serde_json::{Value, json};

use crate::bridge::setup::{Port, delegated};

/// A delegate that gives everybody this address.
fn at(address: &str, keys: Value) -> Value {
    delegated(&json!({"cniVersion": "1.0.0", "ips": [{"address": address}]}), keys)
}

/// The rest of the container's attachment is taken back as well.
#[test]
fn with_enabledad_a_taken_address_makes_add_fail_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let first = Port::new(&sandbox, "id1", at("fd00:1::7/64", json!({})));
    first.add();
    let second =
        Port::new(&sandbox, "id2", at("fd00:1::7/64", json!({"enabledad": true, "ipMasq": true, "isGateway": true})));
    second.refused(103, &["fd00:1::7", "eth0"]);
    assert!(second.inside().link("eth0").is_none());
    let third = Port::new(&sandbox, "id3", at("fd00:1::8/64", json!({"enabledad": true})));
    let result = third.add();
    third.check(&result);
    assert!(third.reaches("fd00:1::7", Duration::from_secs(20)));
}

/// ADD waits for the end of it: an address that may be refused yet is no address.
#[test]
fn with_enabledad_the_address_is_tried_before_add_is_done() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", at("fd00:1::7/64", json!({"enabledad": true})));
    port.add();
    let network = port.inside();
    let own = network.addresses.iter().find(|own| own.ip.to_string() == "fd00:1::7").expect("the address");
    assert_eq!((own.tentative, own.nodad), (false, false), "{own}");
    assert_eq!(port.container.sh("cat /proc/sys/net/ipv6/conf/eth0/accept_dad").trim(), "1");
    assert_eq!(port.container.sh("cat /proc/sys/net/ipv6/conf/eth0/enhanced_dad").trim(), "1");
}

/// The IPAM plugin answers for it that nobody else has the address.
#[test]
fn without_enabledad_the_address_is_in_use_at_once() {
    for keys in [json!({}), json!({"enabledad": false})] {
        one_of_three_within(Duration::from_secs(1), || {
            let sandbox = Sandbox::new();
            let port = Port::new(&sandbox, "id1", at("fd00:1::7/64", keys.clone()));
            let outcome = port.call(cni_conformance::Verb::Add).run();
            outcome.expect_success();
            let network = port.inside();
            let own = network.addresses.iter().find(|own| own.ip.to_string() == "fd00:1::7").expect("the address");
            assert_eq!((own.tentative, own.nodad), (false, true), "{own}");
            assert_eq!(port.container.sh("cat /proc/sys/net/ipv6/conf/eth0/accept_dad").trim(), "0");
            port.del();
            outcome.elapsed()
        });
    }
}

/// The reference waits when an IPv6 address was given, and for nothing that the kernel makes by itself.
#[test]
fn enabledad_does_not_keep_ipv4_waiting() {
    one_of_three_within(Duration::from_secs(1), || {
        let sandbox = Sandbox::new();
        let port = Port::new(&sandbox, "id1", at("10.1.2.7/24", json!({"enabledad": true})));
        let outcome = port.call(cni_conformance::Verb::Add).run();
        port.check(&outcome.result());
        assert_eq!(port.inside().addresses_of("eth0"), ["10.1.2.7/24"]);
        outcome.elapsed()
    });
}

/// So that neighbours forget who had the address before.
#[test]
fn a_new_interface_announces_its_address() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", at("10.1.2.7/24", json!({})));
    port.add();
    assert_eq!(port.container.sh("cat /proc/sys/net/ipv4/conf/eth0/arp_notify").trim(), "1");
}
