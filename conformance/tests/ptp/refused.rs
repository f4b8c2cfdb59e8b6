//! ADDs that fail leave nothing behind.

use cni_conformance::cases::for_each;
use cni_conformance::{Attachment, ListHost, Runtime, stand_in};
use serde_json::json;

use crate::ptp::setup::{V4, fixed, left_nothing_since, network, state, with_ipam};

#[test]
fn a_configuration_that_cannot_be_carried_out_is_refused_before_ipam_is_asked() {
    let cases = [
        ("no ipam", (json!({"ipam": null}), "no plugin name provided: ptp requires ipam.type")),
        ("backend", (json!({"ipMasqBackend": "foo"}), "unknown ipmasq backend \"foo\"")),
        ("mtu", (json!({"mtu": 70_000}), "invalid mtu 70000 (must be at most 65535)")),
    ];
    for_each(cases, |(keys, says)| {
        let mut host = ListHost::new(network(&[V4], &json!({})));
        host.list["cniVersion"] = json!("1.1.0");
        for (key, value) in keys.as_object().expect("keys") {
            host.list["plugins"][0][key] = value.clone();
        }
        let before = state(&host);
        host.try_to_add("id1").expect_error("ptp", 7, says);
        host.runtime().status().expect_error("ptp", 7, says);
        cni_conformance::state::assert_same(&before, &state(&host));
    });
}

#[test]
fn what_the_kernel_refuses_leaves_nothing() {
    let host = ListHost::new(network(&[V4], &json!({"mtu": 60})));
    let before = state(&host);
    assert!(host.try_to_add("id1").steps().iter().all(|(_, outcome)| outcome.error().msg.contains("veth")));
    left_nothing_since(&before, &host);
}

/// The reference installs a default route on the link, and fails on the host.
#[test]
fn an_address_without_a_gateway_is_released() {
    let host = ListHost::new(fixed(&json!([{"address": "10.1.2.5/24"}]), &json!([{"dst": "0.0.0.0/0"}])));
    let before = state(&host);
    host.try_to_add("id1").expect_error("ptp", 7, "the IPAM plugin gives 10.1.2.5/24 no gateway");
    left_nothing_since(&before, &host);
}

/// Where the reference leaves the lease, or the veth.
#[test]
fn an_answer_that_cannot_be_applied_is_released() {
    let answers = [
        ("no address", (r#"{"cniVersion": "1.0.0", "ips": []}"#, "IPAM plugin returned missing IP config")),
        ("a version of the future", (r#"{"cniVersion": "9.9.9"}"#, "returned an invalid result")),
        (
            "a route by a router that is out of reach",
            (
                r#"{"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.5/24", "gateway": "10.1.2.1"}],
                    "routes": [{"dst": "0.0.0.0/0", "gw": "172.16.0.1"}]}"#,
                "failed to add route 0.0.0.0/0 via 172.16.0.1",
            ),
        ),
    ];
    for_each(answers, |(answer, says)| {
        let host = ListHost::new(with_ipam(&json!({"type": "fake"}), &json!({})));
        let folder = stand_in::install(
            "fake",
            &format!(
                "echo $CNI_COMMAND >> /run/conformance/calls\n[ $CNI_COMMAND = ADD ] && echo '{answer}'\nexit 0\n"
            ),
        );
        let before = state(&host);
        let container = host.sandbox.container("id1");
        let chain = Runtime::new(&host.sandbox, host.list.clone())
            .binaries(&folder)
            .add(&mut Attachment::new("id1", &container));
        let error = chain.step("ptp").error();
        assert!(error.msg.contains(says), "{chain}");
        left_nothing_since(&before, &host);
        assert_eq!(host.sandbox.sh("cat /run/conformance/calls"), "ADD\nDEL\n");
        host.sandbox.sh("rm /run/conformance/calls");
    });
}

#[test]
fn an_interface_that_is_there_is_neither_taken_nor_changed() {
    let host = ListHost::new(network(&[V4], &json!({})));
    let container = host.sandbox.container("id1");
    container.sh("ip link add eth0 type bridge");
    let before = state(&host);
    let error = host.runtime().add(&mut Attachment::new("id1", &container)).expect_error(
        "ptp",
        103,
        "container veth name (\"eth0\")",
    );
    assert!(error.msg.ends_with("already exists"), "{}", error.msg);
    left_nothing_since(&before, &host);
    container.sh("ip link show eth0 type bridge");
}
