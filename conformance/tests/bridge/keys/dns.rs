//! `dns`: the configuration's name resolution replaces that of the IPAM plugin, as a whole.

use cni_conformance::Sandbox;
use cni_conformance::cases::for_each;
use serde_json::{Value, json};

use crate::bridge::setup::{Port, delegated, layer_two, with};

fn of_ipam() -> Value {
    json!({"nameservers": ["192.0.2.53"], "domain": "ipam.example", "search": ["a.example"], "options": ["ndots:2"]})
}

#[test]
fn dns_replaces_that_of_the_ipam_plugin_as_soon_as_a_key_is_given() {
    let cases = [
        ("absent", (json!({}), of_ipam())),
        ("null", (json!({"dns": null}), of_ipam())),
        ("empty", (json!({"dns": {}}), of_ipam())),
        ("an empty domain", (json!({"dns": {"domain": ""}}), of_ipam())),
        ("keys that are null", (json!({"dns": {"nameservers": null, "search": null, "domain": null}}), of_ipam())),
        (
            "name servers",
            (
                json!({"dns": {"nameservers": ["192.0.2.1", "2001:db8::53"]}}),
                json!({"nameservers": ["192.0.2.1", "2001:db8::53"]}),
            ),
        ),
        ("a domain", (json!({"dns": {"domain": "own.example"}}), json!({"domain": "own.example"}))),
        ("a search list", (json!({"dns": {"search": ["x", "y"]}}), json!({"search": ["x", "y"]}))),
        ("options", (json!({"dns": {"options": ["edns0"]}}), json!({"options": ["edns0"]}))),
        ("an empty list", (json!({"dns": {"nameservers": []}}), Value::Null)),
        (
            "an empty list of options",
            (json!({"dns": {"options": [], "domain": "own.example"}}), json!({"domain": "own.example"})),
        ),
    ];
    for_each(cases, |(keys, expected)| {
        let sandbox = Sandbox::new();
        let ipam = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24"}], "dns": of_ipam()});
        let port = Port::new(&sandbox, "id1", with(&delegated(&ipam, json!({})), &keys));
        let result = port.add();
        assert_eq!(result.get("dns").cloned().unwrap_or_default(), expected, "{result}");
        port.check(&result);
    });
}

#[test]
fn dns_stands_in_the_result_of_a_network_without_ipam() {
    let sandbox = Sandbox::new();
    let dns = json!({"nameservers": ["192.0.2.1"], "domain": "own.example", "search": ["x"], "options": ["edns0"]});
    let result = Port::new(&sandbox, "id1", layer_two(json!({"dns": dns.clone()}))).add();
    assert_eq!(result["dns"], dns);
}

#[test]
fn without_any_dns_the_result_of_1_0_0_has_none() {
    let sandbox = Sandbox::new();
    let ipam = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.7/24"}], "dns": {"nameservers": []}});
    let result = Port::new(&sandbox, "id1", delegated(&ipam, json!({}))).add();
    assert!(result.get("dns").is_none(), "{result}");
}
