//! CHECK names what is not as ADD has left it.

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;

use crate::host_device::setup::{addressed, host};

const DAMAGE: [(&str, &str); 6] = [
    ("ip link set eth0 down", "Interface eth0 in the container namespace is down"),
    ("ip link set eth0 address 02:00:00:00:00:01", "doesn't match container Mac: 02:00:00:00:00:01"),
    ("ip link set eth0 name other", "Interface name eth0 not found"),
    ("ip address del 10.1.2.2/24 dev eth0", "Failed to match addr 10.1.2.2/24"),
    ("ip route del 10.9.0.0/16", "Expected Route to 10.9.0.0/16"),
    ("ip link del eth0", "Interface name eth0 not found"),
];

#[test]
fn each_thing_that_carries_traffic_is_missed() {
    for_each(DAMAGE.map(|(line, says)| (line, (line, says))), |(line, says)| {
        let host = host(addressed());
        let (container, attachment) = host.add("id1");
        let before = host.state();
        host.check(&attachment);
        assert_same(&before, &host.state());
        container.sh(line);
        host.runtime().check(&attachment).expect_error("host-device", 100, says);
    });
}
