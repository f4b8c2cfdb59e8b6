//! CHECK names what is not as ADD has left it.

use cni_conformance::ListHost;
use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use serde_json::json;

use crate::tap::setup::addressed;

/// The reference looks at addresses and routes alone.
const DAMAGE: [(&str, &str); 7] = [
    ("ip link set eth0 down", "Interface eth0 in the container namespace is down"),
    ("ip link set eth0 address 02:00:00:00:00:01", "doesn't match container Mac: 02:00:00:00:00:01"),
    ("ip link set eth0 name other", "Interface name eth0 not found"),
    ("ip address del 10.1.2.2/24 dev eth0", "Failed to match addr 10.1.2.2/24"),
    ("ip route del 10.9.0.0/16", "Expected Route to 10.9.0.0/16"),
    ("ip link del eth0", "Interface name eth0 not found"),
    ("sh -c 'ip link del eth0; ip link add eth0 type bridge'", "Interface eth0 does not have link type of tun"),
];

#[test]
fn each_thing_that_carries_traffic_is_missed() {
    for_each(DAMAGE.map(|(line, says)| (line, (line, says))), |(line, says)| {
        let host = ListHost::new(addressed(&json!({})));
        let (container, attachment) = host.add("id1");
        let before = host.state_with(&[&container]);
        host.check(&attachment);
        assert_same(&before, &host.state_with(&[&container]));
        container.must(&["sh", "-c", line]);
        host.runtime().check(&attachment).expect_error("tap", 100, says);
    });
}

#[test]
fn a_device_for_somebody_else_is_reported() {
    let mut host = ListHost::new(addressed(&json!({"owner": 1000})));
    let (_container, attachment) = host.add("id1");
    host.list["plugins"][0]["owner"] = json!(1001);
    let says = "interface eth0 is tun mode tap user 1000, and not tun mode tap user 1001";
    host.runtime().check(&attachment).expect_error("tap", 100, says);
}
