//! Unknown keys are ignored, wherever they are.
//!
//! Runtimes and operators add their own keys to configurations (`nerdctlID`, `ipRange`, `capabilities`), and Go checks
//! only the syntax of their values.

use cni_conformance::state::assert_same;
use cni_conformance::{State, Verb, plugins};
use serde_json::{Value, json};

use crate::protocol::spelling::rich;
use crate::protocol::{PLUGINS, VERBS, call};

/// Placeholder for a value in a configuration until it is text.
const HERE: &str = "@value@";

/// Adds an unknown key to every object but that of kernel parameters, whose keys are no plugin's.
fn sprinkled(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| match key.as_str() {
                "sysctl" => (key.clone(), value.clone()),
                _ => (key.clone(), sprinkled(value)),
            };
            let unknown = ("x-unknown".to_owned(), json!(HERE));
            Value::Object(entries.iter().map(entry).chain([unknown]).collect())
        }
        Value::Array(items) => items.iter().map(sprinkled).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Requires that every command answers as if the key were not there.
fn assert_ignored(what: &str, value: &str) {
    for plugin in plugins::that_can_add() {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let mut config = rich(plugin);
        config["cniVersion"] = json!("1.1.0");
        config["cni.dev/valid-attachments"] = json!([{"containerID": "ctr1", "ifname": "eth0"}]);
        for verb in VERBS {
            let text = sprinkled(&config).to_string().replace(&format!("\"{HERE}\""), value);
            let outcome = call(&sandbox, plugin, verb, &container).stdin(text.as_bytes()).run();
            assert!(outcome.succeeded(), "{what} under an unknown key: {outcome}");
            if let (
                Verb::Add,
                "bridge" | "ptp" | "dummy" | "host-device" | "macvlan" | "vlan" | "ipvlan" | "tap" | "flannel"
                | "static" | "tc-redirect-tap",
            ) = (verb, plugin)
            {
                config["prevResult"] = outcome.result();
            }
        }
    }
}

/// Requires one clear error of every command, and that nothing changes.
fn assert_refused(value: &str, words: &str) {
    for plugin in PLUGINS {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let before = State::capture(&sandbox, &[&container]);
        let mut config = rich(plugin);
        config["cniVersion"] = json!("1.1.0");
        for verb in VERBS {
            let text = sprinkled(&config).to_string().replace(&format!("\"{HERE}\""), value);
            call(&sandbox, plugin, verb, &container).stdin(text.as_bytes()).run().expect_error(6, words);
            assert_same(&before, &State::capture(&sandbox, &[&container]));
        }
    }
}

#[test]
fn unknown_keys_are_ignored() {
    assert_ignored("a text", "\"text\"");
    assert_ignored("null", "null");
    assert_ignored("an object", r#"{"name":"n9","cniVersion":9,"type":[]}"#);
    assert_ignored("a list", "[null,{},[1,-2.5e3]]");
}

/// A number that no number type holds is refused. Go passes over it under an unknown key; nobody sends one.
#[test]
fn a_number_beyond_all_bounds_is_refused() {
    assert_refused("1e999", "number out of range");
    assert_ignored("-123456789012345678901234567890", "-123456789012345678901234567890");
}

/// Go puts U+FFFD in its place; JSON (RFC 8259 section 8.2) leaves open what it means.
#[test]
fn half_a_surrogate_pair_is_refused() {
    assert_refused(r#""\ud800""#, "hex escape");
}

/// Go's limit are 10000 levels, ours 128.
#[test]
fn deep_nesting_is_refused() {
    assert_ignored("100 levels", &format!("{}{}", "[".repeat(100), "]".repeat(100)));
    assert_refused(&format!("{}{}", "[".repeat(5000), "]".repeat(5000)), "recursion limit");
}

/// What libcni, nerdctl, podman and Nomad are known to leave in a plugin's configuration.
#[test]
fn keys_of_runtimes_are_ignored() {
    for plugin in plugins::that_can_add() {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let mut config = rich(plugin);
        for (key, value) in [
            ("capabilities", json!({"portMappings": true, "ips": true, "mac": true})),
            ("nerdctlID", json!("17f29b07")),
            ("nerdctlLabels", json!({"nerdctl/default-network": "true"})),
            ("IptablesProvider", json!(null)),
            ("addIf", json!("eth0")),
            ("zone", json!("trusted")),
            ("disableCheck", json!("true")),
            ("log_level", json!("debug")),
        ] {
            config[key] = value;
        }
        if config["ipam"]["ranges"].is_array() {
            config["ipam"]["ranges"][0][0]["ipRange"] = json!("10.88.0.128/25");
        }
        if config["ipam"].is_object() {
            config["ipam"]["resolvconf_"] = json!(4711);
        }
        call(&sandbox, plugin, Verb::Add, &container).config(&config).run().result();
        let del = call(&sandbox, plugin, Verb::Del, &container).config(&config).run();
        assert_eq!((del.code(), del.stdout()), (Some(0), ""), "{del}");
    }
}
