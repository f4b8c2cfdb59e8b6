//! How soon a container is reached.

use std::net::IpAddr;
use std::time::Duration;

use cni_conformance::cases::within_three_attempts;
use cni_conformance::traffic::{ping, ping_until_answered};
use cni_conformance::{ListHost, Namespace, Outside};
use serde_json::json;

use crate::ptp::setup::{V4, V6, addresses, network};

/// Much less than the two seconds in which the kernel looks for others with the same address.
const AT_ONCE: Duration = Duration::from_millis(500);

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Requires an answer at once.
fn answers(from: &Namespace, to: IpAddr) -> Result<(), String> {
    if ping(from, to, AT_ONCE) { Ok(()) } else { Err(format!("{to} from {}", from.name())) }
}

#[test]
fn both_families_are_reached_as_soon_as_add_has_ended() {
    within_three_attempts(|| {
        let host = ListHost::new(network(&[V4, V6], &json!({})));
        let (container, _) = host.add("id1");
        addresses(&container).into_iter().try_for_each(|own| answers(host.sandbox.host(), own))?;
        ["10.1.2.1", "fd00:1::1"].into_iter().try_for_each(|gateway| answers(&container, address(gateway)))
    });
}

/// Also the first IPv6 packet, for which the host has to find the container by its link-local address.
#[test]
fn a_container_is_reached_from_outside_at_once() {
    within_three_attempts(|| {
        let host = ListHost::new(network(&[V4, V6], &json!({})));
        let outside = host.sandbox.outside();
        [V4, V6].iter().for_each(|subnet| outside.route_to(subnet));
        for own in [Outside::HOST_V4.into(), Outside::HOST_V6.into()] {
            ping_until_answered(&outside, own, Duration::from_secs(20));
        }
        let (container, _) = host.add("id1");
        addresses(&container).into_iter().try_for_each(|own| answers(&outside, own))
    });
}
