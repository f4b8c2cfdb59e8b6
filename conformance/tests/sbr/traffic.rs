//! The ways of packets: answers leave by the interface that the questions came by.

use cni_conformance::Verb::{Add, Del};
use serde_json::json;

use crate::sbr::setup::Routed;

/// Asks the container from an address that its main table would answer by the other interface.
fn is_answered(routed: &Routed, from: &str, to: &str) -> bool {
    routed.router.exec(&["ping", "-q", "-c", "1", "-W", "1", "-I", from, to]).code == Some(0)
}

#[test]
fn answers_leave_by_the_interface_of_their_address() {
    let routed = Routed::new();
    let both = [("192.0.2.1", "10.91.0.2"), ("2001:db8::1", "fd00:91::2")];
    let answered = || both.map(|(from, to)| is_answered(&routed, from, to));
    assert_eq!(answered(), [false, false], "the main table knows another way, or none");
    routed.succeeds(&[Add], &json!({}));
    assert_eq!(answered(), [true, true]);
    routed.succeeds(&[Del], &json!({}));
    assert_eq!(answered(), [false, false]);
}

#[test]
fn the_container_reaches_the_network_from_its_address() {
    let routed = Routed::new();
    routed.succeeds(&[Add], &json!({}));
    for (from, to) in [("10.91.0.2", "10.91.0.1"), ("10.91.0.2", "192.0.2.1"), ("fd00:91::2", "2001:db8::1")] {
        routed.container.sh(&format!("ping -q -c 1 -W 2 -I {from} {to}"));
    }
    routed.container.sh("ping -q -c 1 -W 2 10.90.0.1");
}
