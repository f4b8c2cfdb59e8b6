//! Invalid configurations, and kernels without VLAN filtering. Nothing is left of either.

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature, Network, Runtime, Sandbox, State};
use serde_json::{Value, json};

use super::{addressed, attach, interface, network, vlans};

const UNSUPPORTED: u64 = 2;
const INVALID: u64 = 7;
const NO_FILTERING: &str = "this kernel has no bridge VLAN filtering";

/// Requires that ADD of this network fails so and changes nothing.
#[track_caller]
fn assert_refused(sandbox: &Sandbox, list: Value, code: u64, text: &str) {
    let container = sandbox.container("refused");
    let before = State::capture(sandbox, &[&container]);
    let mut attachment = Attachment::new("refused", &container);
    Runtime::new(sandbox, list).add(&mut attachment).expect_error("bridge", code, text);
    assert_same(&before, &State::capture(sandbox, &[&container]));
    container.remove();
}

#[test]
fn vlans_that_there_are_not_are_refused_before_anything_is_done() {
    let rows = [
        (json!({"vlan": 4095}), "invalid VLAN ID 4095 (must be between 0 and 4094)"),
        (json!({"vlan": -1}), "invalid VLAN ID -1 (must be between 0 and 4094)"),
        (json!({"vlanTrunk": [{"minID": 0, "maxID": 5}]}), "incorrect trunk minID parameter"),
        (json!({"vlanTrunk": [{"minID": 4095, "maxID": 4095}]}), "incorrect trunk minID parameter"),
        (json!({"vlanTrunk": [{"minID": 1, "maxID": 4095}]}), "incorrect trunk maxID parameter"),
        (json!({"vlanTrunk": [{"minID": 20, "maxID": 10}]}), "minID is greater than maxID in trunk parameter"),
        (
            json!({"vlanTrunk": [{"maxID": 10}]}),
            "minID and maxID should be configured simultaneously, minID is missing",
        ),
        (
            json!({"vlanTrunk": [{"minID": 10}]}),
            "minID and maxID should be configured simultaneously, maxID is missing",
        ),
        (json!({"vlanTrunk": [{"id": 0}]}), "incorrect trunk id parameter"),
        (json!({"vlanTrunk": [{"id": 5}, {"id": 4095}]}), "incorrect trunk id parameter"),
        // The reference crashes.
        (json!({"vlanTrunk": [null]}), "incorrect trunk parameter: null"),
    ];
    for_each(rows.map(|(keys, text)| (keys.to_string(), (keys, text))), |(keys, text)| {
        assert_refused(&Sandbox::new(), network(&keys), INVALID, text);
    });
}

// The reference finds out when the bridge, the container's interface and its address are there.
#[test]
fn a_gateway_link_whose_name_is_too_long_is_refused_before_anything_is_done() {
    let keys = json!({"bridge": "abcdefghijk", "vlan": 4094, "isGateway": true});
    let text = r#"failed to create vlan gateway "abcdefghijk.4094""#;
    assert_refused(&Sandbox::new(), addressed("10.5.0.0/24", &keys), INVALID, text);
}

#[test]
fn a_bridge_name_is_no_longer_than_its_use_needs() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let (_, attachment) = attach(&sandbox, &network(&json!({"bridge": "abcdefghijk", "vlan": 4094})), "c1");
        assert_eq!(vlans(&sandbox, &interface(&attachment, 1)), ["4094 pvid untagged"]);
        let keys = json!({"bridge": "abcdefghij", "vlan": 4094, "isGateway": true});
        let (_, attachment) = attach(&sandbox, &addressed("10.5.0.0/24", &keys), "c2");
        assert_eq!(interface(&attachment, 3), "abcdefghij.4094");
    });
}

#[test]
fn a_kernel_carries_vlans_out_or_says_that_it_cannot() {
    for_each([("a new bridge", false), ("an existing bridge", true)], |existing| {
        for_each(
            [json!({"vlan": 5}), json!({"vlanTrunk": [{"id": 20}]})].map(|keys| (keys.to_string(), keys)),
            |keys| {
                let sandbox = Sandbox::new();
                if existing {
                    // With an address of its own it does not take that of the port which comes and goes.
                    sandbox.sh("ip link add br0 address 02:00:00:00:00:01 type bridge");
                    sandbox.sh("ip link set br0 up");
                    sandbox.set_sysctl("net/ipv6/conf/br0/accept_ra", "0");
                }
                let list = network(&keys);
                if Feature::BridgeVlans.is_here() {
                    attach(&sandbox, &list, "c1");
                } else {
                    assert_refused(&sandbox, list, UNSUPPORTED, NO_FILTERING);
                }
            },
        );
    });
}

#[test]
fn a_kernel_without_vlans_undoes_the_address_as_well() {
    let sandbox = Sandbox::new();
    let list = addressed("10.5.0.0/24", &json!({"vlan": 5, "isGateway": true}));
    let container = sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    let chain = Runtime::new(&sandbox, list).add(&mut attachment);
    if Feature::BridgeVlans.is_here() {
        chain.expect_success();
        return;
    }
    let error = chain.expect_error("bridge", UNSUPPORTED, NO_FILTERING);
    assert!(error.msg.contains("vlan") && error.details.contains("operation not supported"), "{error:?}");
    let leases = sandbox.exec(&["find", "/run/ipam", "-name", "10.5.*"]);
    assert_eq!(leases.stdout, "", "the address is still reserved");
    assert!(Network::observe(sandbox.host()).link("br0").is_none(), "a bridge was left");
}

#[test]
fn the_default_vlan_can_be_kept_on_any_kernel() {
    let sandbox = Sandbox::new();
    let (container, _) = attach(&sandbox, &network(&json!({"preserveDefaultVlan": true})), "c1");
    assert!(Network::observe(&container).link("eth0").is_some());
}

// The reference reads all keys first, and the address stays reserved.
#[test]
fn del_is_not_kept_from_cleaning_up_by_a_vlan_that_there_is_not() {
    let sandbox = Sandbox::new();
    let (container, attachment) = attach(&sandbox, &addressed("10.5.0.0/24", &json!({})), "c1");
    let wrong = addressed("10.5.0.0/24", &json!({"vlan": 4095, "vlanTrunk": [null]}));
    Runtime::new(&sandbox, wrong).del(&attachment).expect_success();
    assert!(Network::observe(&container).link("eth0").is_none());
}
