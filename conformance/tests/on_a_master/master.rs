//! Which link is the master.

use cni_conformance::cases::for_each;
use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Attachment, Feature, Network, Outside};
use serde_json::json;

use super::{KINDS, MasterHost, UPLINK, assert_reaches, shell};

const INVALID: u64 = 7;

#[test]
fn the_master_may_be_called_by_an_alternative_name() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let long = "the-interface-that-leads-to-the-network";
        for name in [long, "short"] {
            machine.sandbox.sh(&format!("ip link property add dev {UPLINK} altname {name}"));
            let list = machine.network(&json!({"master": name}));
            let (container, attachment) = machine.attach(&list, "c1");
            assert_reaches(&container, "10.7.0.1");
            machine.runtime(&list).check(&attachment).expect_success();
            machine.runtime(&list).del(&attachment).expect_success();
            container.remove();
        }
    });
}

#[test]
fn a_master_in_the_container_is_looked_for_there() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({"linkInContainer": true, "master": "inner0"}));
        let container = machine.sandbox.container("c1");
        let mut attachment = Attachment::new("c1", &container);
        let error = machine.runtime(&list).add(&mut attachment);
        let error =
            error.expect_error(super::plugin(kind), INVALID, r#"failed to lookup master "inner0": Link not found"#);
        assert!(error.details.contains("container"), "{error:?}");
        container.sh("ip link add inner0 type veth peer name inner1");
        shell(&container, "ip link set inner0 mtu 1300 up; ip link set inner1 up");
        machine.runtime(&list).add(&mut attachment).expect_success();
        let link = Network::observe(&container).link("eth0").cloned().expect("the link is there");
        assert_eq!((link.mtu, link.up), (1300, true));
        machine.runtime(&list).check(&attachment).expect_success();
        machine.runtime(&list).del(&attachment).expect_success();
        assert!(!super::has_eth0(&container));
    });
}

// The reference's ipvlan says that it cannot rename a link that is not there.
#[test]
fn a_master_in_the_container_that_cannot_have_the_link_is_reported() {
    on_kernels_with(&[Feature::MacvlanLinks, Feature::IpvlanLinks], |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({"linkInContainer": true, "master": "lo"}));
        let container = machine.sandbox.container("c1");
        let chain = machine.runtime(&list).add(&mut Attachment::new("c1", &container));
        let text = format!("failed to create {}: invalid argument", super::plugin(kind));
        chain.expect_error(super::plugin(kind), 101, &text);
    });
}

// The reference gives up at the first default route, whatever it is, with "invalid argument".
#[test]
fn without_a_name_it_is_the_first_default_route_that_leads_to_one() {
    on_kernels_with(&[Feature::MacvlanLinks, Feature::IpvlanLinks], |kind| {
        let other = "ip link add other0 type veth peer name other1; ip link set other0 up; ip link set other1 up; \
                     ip address add 198.51.100.1/24 dev other0";
        let gateway = Outside::V4;
        let rows = [
            ("one", "true".to_owned()),
            (
                "two next hops",
                format!("ip route replace default nexthop via {gateway} dev {UPLINK} nexthop via 198.51.100.2"),
            ),
            ("a black hole", "ip route replace blackhole default".to_owned()),
            (
                "a tunnel",
                "ip tuntap add tun0 mode tun || ip link add tun0 type nlmon; ip link set tun0 up; ip route replace default dev tun0"
                    .to_owned(),
            ),
            ("another metric", "ip route add default via 198.51.100.2 metric 50".to_owned()),
            ("IPv6 alone", "ip route del default".to_owned()),
        ];
        for_each(rows, |change| {
            let machine = MasterHost::new(kind);
            shell(machine.sandbox.host(), other);
            shell(machine.sandbox.host(), &change);
            let list = machine.network(&json!({"master": ""}));
            let (container, attachment) = machine.attach(&list, "c1");
            assert_reaches(&container, "10.7.0.1");
            // CHECK and DEL do not ask for it again.
            shell(machine.sandbox.host(), "ip route flush default; ip -6 route flush default");
            machine.runtime(&list).check(&attachment).expect_success();
            machine.runtime(&list).del(&attachment).expect_success();
            machine.runtime(&list).add(&mut Attachment::new("c1", &container)).expect_error(
                super::plugin(kind),
                INVALID,
                "no default route interface found",
            );
        });
    });
}
