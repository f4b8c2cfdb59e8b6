//! The static IPAM plugin: the addresses from each source, alone and with a bridge.

use cni_conformance::keys::with;
use cni_conformance::{Attachment, Invocation, Outcome, Runtime, Sandbox, Verb, page};
use serde_json::{Value, json};

fn ipam(keys: Value) -> Value {
    let addresses = json!([{"address": "10.10.0.5/24", "gateway": "10.10.0.1"}]);
    with(&json!({"type": "static", "addresses": addresses}), &keys)
}

fn call(sandbox: &Sandbox, verb: Verb, args: &str, keys: Value) -> Outcome {
    let container = sandbox.container("c");
    let config = with(&json!({"cniVersion": "1.0.0", "name": "n1", "type": "static", "ipam": ipam(json!({}))}), &keys);
    Invocation::new(sandbox, "static", verb).netns(container.path()).args(args).config(&config).run()
}

#[track_caller]
fn assert_ips(outcome: &Outcome, want: Value) {
    assert_eq!(outcome.result()["ips"], want, "{outcome}");
}

/// The reference: `runtimeConfig` before `args`, both instead of the configuration, to which `CNI_ARGS` adds.
#[test]
fn every_source_has_its_place() {
    let own = json!({"address": "10.10.0.5/24", "gateway": "10.10.0.1"});
    let args = json!({"args": {"cni": {"ips": ["10.20.0.5/24"]}}});
    let both = with(&args, &json!({"runtimeConfig": {"ips": ["10.30.0.5/24", "fd00::5/64"]}}));
    for (cni_args, keys, want) in [
        ("", json!({}), json!([own])),
        (
            "IP=10.40.0.5/24;GATEWAY=10.40.0.1",
            json!({}),
            json!([own, {"address": "10.40.0.5/24", "gateway": "10.40.0.1"}]),
        ),
        ("IP=10.40.0.5/24", args, json!([{"address": "10.20.0.5/24"}])),
        ("", both, json!([{"address": "10.30.0.5/24"}, {"address": "fd00::5/64"}])),
    ] {
        assert_ips(&call(&Sandbox::new(), Verb::Add, cni_args, keys), want);
    }
}

/// The reference refuses the text, whatever `address` says, since its own `Address` is an object of bytes.
#[test]
fn an_address_with_a_capital_letter_counts_where_there_is_no_other() {
    for (address, want) in [
        (json!({"address": "10.10.0.5/24", "Address": "10.10.0.9/24"}), "10.10.0.5/24"),
        (json!({"Address": "10.10.0.9/24"}), "10.10.0.9/24"),
    ] {
        let keys = json!({"ipam": {"type": "static", "addresses": [address]}});
        assert_ips(&call(&Sandbox::new(), Verb::Add, "", keys), json!([{"address": want}]));
    }
}

/// The reference refuses an address without prefix length; podman's `--ip` takes no other.
#[test]
fn an_address_without_prefix_length_has_that_of_its_network() {
    let want = json!([{"address": "10.10.0.7/24", "gateway": "10.10.0.1"}]);
    assert_ips(&call(&Sandbox::new(), Verb::Add, "", json!({"runtimeConfig": {"ips": ["10.10.0.7"]}})), want);
}

/// The reference gives these addresses no gateway, so there is no default route to be made of one.
#[test]
fn an_address_of_the_runtime_keeps_the_gateway_of_its_network() {
    let want = json!([{"address": "10.10.0.7/24", "gateway": "10.10.0.1"}]);
    assert_ips(&call(&Sandbox::new(), Verb::Add, "", json!({"runtimeConfig": {"ips": ["10.10.0.7/24"]}})), want);
}

/// The reference drops it.
#[test]
fn a_gateway_of_cni_args_is_that_of_configured_addresses_too() {
    let want = json!([{"address": "10.10.0.5/24", "gateway": "10.10.0.254"}]);
    assert_ips(&call(&Sandbox::new(), Verb::Add, "GATEWAY=10.10.0.254", json!({})), want);
}

/// The reference passes: it compares the gateways of those that it finds.
#[test]
fn check_fails_when_an_address_is_not_in_the_result() {
    let prev = |address: &str| json!({"prevResult": {"cniVersion": "1.0.0", "ips": [{"address": address, "gateway": "10.10.0.1"}]}});
    call(&Sandbox::new(), Verb::Check, "", prev("10.10.0.5/24")).expect_success();
    let text = "static: Failed to find addr 10.10.0.5/24 on interface eth0";
    call(&Sandbox::new(), Verb::Check, "", prev("10.10.0.6/24")).expect_error(100, text);
}

#[test]
fn check_fails_when_the_gateway_is_another_one() {
    let ip = json!({"address": "10.10.0.5/24", "gateway": "10.10.0.9"});
    let keys = json!({"prevResult": {"cniVersion": "1.0.0", "ips": [ip]}});
    call(&Sandbox::new(), Verb::Check, "", keys).expect_error(100, "static: Failed to match addr 10.10.0.1");
}

#[test]
fn a_value_that_cannot_be_used_is_refused_with_its_key() {
    for (args, keys, code, text, details) in [
        ("", json!({"ipam": null}), 7, "IPAM config missing 'ipam' key", ""),
        (
            "",
            json!({"ipam": ipam(json!({"addresses": [{"address": "10.0.0.1"}]}))}),
            7,
            "got: '10.0.0.1'",
            "ipam.addresses[0]",
        ),
        (
            "",
            json!({"ipam": ipam(json!({"addresses": [null]}))}),
            7,
            "expected to be in CIDR notation",
            "ipam.addresses[0]",
        ),
        (
            "",
            json!({"ipam": ipam(json!({"routes": [{"dst": "x"}]}))}),
            7,
            "invalid CIDR address: x",
            "ipam.routes[0].dst",
        ),
        ("", json!({"ipam": ipam(json!({"addresses": {}}))}), 6, "failed to load netconf", "addresses"),
        (
            "",
            json!({"runtimeConfig": {"ips": ["10.99.0.1"]}}),
            7,
            "NOT in CIDR notation, got: '10.99.0.1'",
            "runtimeConfig.ips[0]",
        ),
        ("IP=x", json!({}), 4, "expected to be in CIDR notation, got: 'x'", "CNI_ARGS"),
        ("GATEWAY=x", json!({}), 4, "invalid gateway address: x", "CNI_ARGS"),
    ] {
        for verb in [Verb::Add, Verb::Check] {
            let error = call(&Sandbox::new(), verb, args, keys.clone()).expect_error(code, text);
            assert!(error.details.contains(details), "{error:?}");
        }
    }
}

/// DEL needs nothing: what cannot be used any more does not keep a container.
#[test]
fn del_succeeds_whatever_became_of_the_configuration() {
    for (args, keys) in [("IP=x", json!({})), ("", json!({"ipam": null})), ("", json!({"ipam": {"addresses": 7}}))] {
        call(&Sandbox::new(), Verb::Del, args, keys).expect_success();
    }
}

/// The example of the plugin's page, and what bridge makes of it.
#[test]
fn behind_a_bridge_the_container_has_the_addresses_and_gives_them_back() {
    let list = page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/static/README.md")));
    let sandbox = Sandbox::new();
    let runtime = Runtime::new(&sandbox, list);
    let container = sandbox.container("c");
    let mut attachment = Attachment::new("c", &container);
    for _ in ["first", "again"] {
        runtime.add(&mut attachment).expect_success();
        runtime.check(&attachment).expect_success();
        let addresses = container.must(&["ip", "-br", "addr", "show", "dev", "eth0"]);
        assert!(addresses.contains("10.10.0.5/24") && addresses.contains("2001:db8::5/64"), "{addresses}");
        let routes = container.must(&["ip", "route", "show", "default"]);
        assert!(routes.contains("via 10.10.0.1"), "{routes}");
        runtime.del(&attachment).expect_success();
        assert!(!container.must(&["ip", "-br", "link"]).contains("eth0"));
    }
}
