//! CHECK names what is not as ADD made it, on either end, and changes nothing.

use cni_conformance::ListHost;
use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use serde_json::json;

use crate::ptp::setup::{V4, V6, host_end, network, state};

/// What somebody does in the container, or on the host to the link `VETH`, and what CHECK says then.
const DAMAGE: [(&str, &str, &str); 11] = [
    ("container", "ip link del eth0", "Interface name eth0 not found"),
    ("container", "ip link set eth0 down", "Interface eth0 in the container namespace is down"),
    ("container", "ip link set eth0 address 02:00:00:00:00:01", "doesn't match container Mac: 02:00:00:00:00:01"),
    ("container", "ip address del 10.1.2.2/24 dev eth0", "Failed to match addr 10.1.2.2/24"),
    ("container", "ip route del 10.1.2.0/24", "Failed to find the route to 10.1.2.0/24"),
    ("container", "ip -6 route del default", "Expected Route to ::/0"),
    ("host", "ip link set VETH down", "in the host namespace is down"),
    ("host", "ip address del 10.1.2.1/32 dev VETH", "Failed to match gateway addr 10.1.2.1 on interface VETH"),
    ("host", "ip route del 10.1.2.2 dev VETH", "Expected Route to 10.1.2.2 by interface VETH not found on the host"),
    (
        "host",
        "ip -6 route del fd00:1::2 dev VETH",
        "Expected Route to fd00:1::2 by interface VETH not found on the host",
    ),
    ("host", "iptables -t nat -F POSTROUTING", "masquerade rule of the container not found: "),
];

#[test]
fn each_thing_that_carries_traffic_is_missed() {
    for_each(DAMAGE.map(|(on, line, says)| (line, (on, line, says))), |(on, line, says)| {
        let host = ListHost::new(network(&[V4, V6], &json!({"ipMasq": true, "ipMasqBackend": "iptables"})));
        let (container, attachment) = host.add("id1");
        let before = state(&host);
        host.check(&attachment);
        assert_same(&before, &state(&host));
        let veth = host_end(&attachment);
        let line = line.replace("VETH", veth);
        if on == "host" {
            host.sandbox.sh(&line)
        } else {
            container.sh(&line)
        };
        host.runtime().check(&attachment).expect_error("ptp", 100, &says.replace("VETH", veth));
        host.del(&attachment);
    });
}

#[test]
fn what_does_not_stop_traffic_is_passed_over() {
    let host = ListHost::new(network(&[V4, V6], &json!({"ipMasq": true})));
    let (container, attachment) = host.add("id1");
    let (_neighbour, _) = host.add("id2");
    container.sh("ip route add 192.0.2.0/24 via 10.1.2.1");
    container.sh("ip address add 10.9.9.9/32 dev eth0");
    host.sandbox.sh(&format!("ip link set {} promisc on", host_end(&attachment)));
    host.check(&attachment);
}
