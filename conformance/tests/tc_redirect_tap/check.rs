//! CHECK names what is not as ADD has left it.

use cni_conformance::ListHost;
use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use serde_json::json;

use super::setup::{PLUGIN, list};

/// The original looks at the two redirects alone.
const DAMAGE: [(&str, &str); 8] = [
    ("ip link set tap0 down", "Interface tap0 in the container namespace is down"),
    ("ip link set tap0 mtu 900", "tap device tap0 has MTU 900, and not 1400"),
    ("ip link set tap0 name other", "Interface name tap0 not found"),
    ("ip link del tap0", "Interface name tap0 not found"),
    ("tc qdisc del dev eth0 ingress", "frames that eth0 receives are not redirected to tap0"),
    ("tc qdisc del dev tap0 ingress", "frames that tap0 receives are not redirected to eth0"),
    ("sh -c 'ip link del tap0; ip link add tap0 type bridge'", "interface tap0 is not a tap device"),
    (
        "sh -c 'ip link del tap0; ip tuntap add dev tap0 mode tap user 7'",
        "tap device tap0 is tun mode tap user 7, and not",
    ),
];

#[test]
fn each_thing_that_carries_frames_is_missed() {
    for_each(DAMAGE.map(|(line, says)| (line, (line, says))), |(line, says)| {
        let host = ListHost::new(list(&json!({"owner": 1000, "group": 5})));
        let (container, attachment) = host.add("id1");
        let before = host.state_with(&[&container]);
        host.check(&attachment);
        assert_same(&before, &host.state_with(&[&container]));
        container.must(&["sh", "-c", line]);
        host.runtime().check(&attachment).expect_error(PLUGIN, 100, says);
    });
}

#[test]
fn another_mac_address_of_the_interface_is_missed_and_the_command_that_shows_it_is_named() {
    let host = ListHost::new(list(&json!({})));
    let (container, attachment) = host.add("id1");
    container.sh("ip link set eth0 address 02:00:00:00:00:01");
    let result = attachment.result.as_ref();
    let call = host.runtime().invocation(cni_conformance::Verb::Check, PLUGIN, &attachment, result);
    let error = call.run().expect_error(100, "and interface eth0 has \"02:00:00:00:00:01\"");
    assert_eq!(error.details, "see ip link show eth0");
}
