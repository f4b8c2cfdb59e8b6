//! CHECK names what is not as ADD made it, and changes nothing.

use cni_conformance::cases::for_each;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Feature, Runtime, Sandbox};

use super::{attach, contents, network, shell};

const CHECK_FAILED: u64 = 100;

#[test]
fn check_passes_after_add_and_whatever_does_not_matter() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let (container, attachment) = attach(&sandbox, &network(), "c1");
        let runtime = Runtime::new(&sandbox, network());
        for change in
            ["true", "ip address add 10.7.0.99/24 dev eth0", "ip route del 10.99.0.0/16", "ip link set eth0 mtu 1400"]
        {
            container.sh(change);
            runtime.check(&attachment).expect_success();
        }
    });
}

#[test]
fn check_names_what_is_missing_or_another() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let rows = [
            ("ip link del eth0", "Interface name eth0 not found in the container namespace"),
            ("ip link set eth0 down", "Interface eth0 in the container namespace is down"),
            ("ip link set eth0 address 02:00:00:00:00:07", "doesn't match container Mac: 02:00:00:00:00:07"),
            ("ip address del 10.7.0.2/24 dev eth0", "Failed to match addr 10.7.0.2/24 on interface eth0"),
            ("ip address del fd00:7::2/64 dev eth0", "Failed to match addr fd00:7::2/64 on interface eth0"),
            ("ip route del 10.7.0.0/24 dev eth0", "Failed to find the route to 10.7.0.0/24"),
            ("ip link del eth0; ip link add eth0 type bridge", "Interface eth0 does not have link type of dummy"),
        ];
        for_each(rows.map(|row| (row.0, row)), |(change, text)| {
            let sandbox = Sandbox::new();
            let (container, attachment) = attach(&sandbox, &network(), "c1");
            shell(&container, change);
            let before = contents(&container);
            Runtime::new(&sandbox, network()).check(&attachment).expect_error("dummy", CHECK_FAILED, text);
            assert_eq!(contents(&container), before);
        });
    });
}

#[test]
fn check_asks_the_ipam_plugin() {
    on_a_kernel_with(Feature::DummyLinks, || {
        let sandbox = Sandbox::new();
        let (_, attachment) = attach(&sandbox, &network(), "c1");
        sandbox.sh("rm /run/ipam/services/10.7.0.2");
        sandbox.sh("rm /run/ipam/services/fd00:7::2");
        let runtime = Runtime::new(&sandbox, network());
        assert!(!runtime.check(&attachment).succeeded(), "the lease is gone, and CHECK does not say so");
    });
}
