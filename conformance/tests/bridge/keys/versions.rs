//! Results of IPAM plugins in every version, with any version of the configuration.

use cni_conformance::Sandbox;
use cni_conformance::cases::for_each;
use serde_json::{Value, json};

use crate::bridge::setup::{Port, answering, delegated};

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// The same answer in the shape of each version: one address of each family, and a route for each.
fn answer(version: &str) -> Value {
    let v4 = json!({"dst": "10.9.0.0/16", "gw": "10.1.2.9"});
    let v6 = json!({"dst": "fd00:9::/64"});
    let dns = json!({"nameservers": ["192.0.2.53"]});
    let ip = |family: &str, address: &str, gateway: &str| match version {
        "1.0.0" | "1.1.0" => json!({"address": address, "gateway": gateway}),
        _ => json!({"version": family, "address": address, "gateway": gateway}),
    };
    match version {
        "0.1.0" | "0.2.0" => json!({
            "cniVersion": version, "dns": dns,
            "ip4": {"ip": "10.1.2.7/24", "gateway": "10.1.2.1", "routes": [v4]},
            "ip6": {"ip": "fd00:1::7/64", "gateway": "fd00:1::1", "routes": [v6]},
        }),
        _ => json!({
            "cniVersion": version, "dns": dns, "routes": [v4, v6],
            "ips": [ip("4", "10.1.2.7/24", "10.1.2.1"), ip("6", "fd00:1::7/64", "fd00:1::1")],
        }),
    }
}

/// Adds a container under a configuration of this version, and tells what came of it but for the version.
#[track_caller]
fn outcome(answered: &str, configured: &str) -> (Value, Vec<String>, Vec<String>) {
    let sandbox = Sandbox::new();
    let keys = json!({"cniVersion": configured, "isGateway": true});
    let port = Port::new(&sandbox, "id1", delegated(&answer(answered), keys));
    let mut result = port.add();
    let object = result.as_object_mut().expect("a result is an object");
    object.remove("cniVersion");
    object.remove("interfaces");
    (result, port.inside().addresses_of("eth0"), port.routes())
}

#[test]
fn an_answer_of_any_version_is_understood_under_any_version_of_the_configuration() {
    for configured in ["1.1.0", "0.4.0", "0.2.0"] {
        let expected = outcome("1.0.0", configured);
        assert_eq!(expected.1, ["10.1.2.7/24", "fd00:1::7/64"]);
        assert_eq!(expected.2.len(), 2, "{:?}", expected.2);
        let cases = VERSIONS.map(|version| (format!("{version} under {configured}"), version));
        for_each(cases, |version| assert_eq!(outcome(version, configured), expected));
    }
}

/// Then it counts as the configuration's.
#[test]
fn an_answer_without_a_version_is_of_the_configurations() {
    for version in VERSIONS {
        for missing in [None, Some(json!(""))] {
            let sandbox = Sandbox::new();
            let mut answer = answer(version);
            match &missing {
                None => drop(answer.as_object_mut().expect("an object").remove("cniVersion")),
                Some(empty) => answer["cniVersion"] = empty.clone(),
            }
            let port = Port::new(&sandbox, "id1", delegated(&answer, json!({"cniVersion": version})));
            let result = port.add();
            assert_eq!(result["cniVersion"], version);
            assert_eq!(port.inside().addresses_of("eth0"), ["10.1.2.7/24", "fd00:1::7/64"], "{version}");
        }
    }
}

#[test]
fn an_answer_of_an_unknown_version_is_refused() {
    for_each(["9.9.9", "1.2.0", "0.5.0", "abc", "1"].map(|version| (version, version)), |version| {
        let sandbox = Sandbox::new();
        let answer = json!({"cniVersion": version, "ips": [{"address": "10.1.2.7/24"}]});
        let port = Port::new(&sandbox, "id1", delegated(&answer, json!({})));
        let before = port.state();
        let error = port.call(cni_conformance::Verb::Add).run().error();
        let said = format!("{}: {}", error.msg, error.details);
        assert!(said.contains(version) && said.contains("version") && said.contains("fake"), "{error:?}");
        port.shared().assert_nothing_else(&before, || port.state());
    });
}

/// As in a configuration, keys of an answer are accepted in any case, and unknown ones are ignored.
#[test]
fn an_answer_is_read_as_leniently_as_a_configuration() {
    let sandbox = Sandbox::new();
    let config = answering(
        r#"echo '{"CNIVERSION":"1.0.0","x":1,"IPs":[{"Address":"10.1.2.7/24","y":[]}],"ROUTES":null,"dns":null}'"#,
        json!({}),
    );
    let port = Port::new(&sandbox, "id1", config);
    let result = port.add();
    assert_eq!(result["ips"], json!([{"address": "10.1.2.7/24", "interface": 2}]));
    port.check(&result);
}
