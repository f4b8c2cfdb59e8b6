//! Keys in any case, beside keys that nobody knows.
//!
//! Go's decoder takes keys without regard to case, and runtimes rely on it: go-cni sends `HostPort`. Runtimes and operators add their own
//! keys to configurations, such as `nerdctlID`.

use cni_conformance::state::differences;
use cni_conformance::{Namespace, Network, State, Verb, plugins};
use serde_json::{Map, Value, json};

use crate::protocol::{LEASES, call, config, with};

/// A configuration with every key that changes what ADD leaves.
pub fn rich(plugin: &str) -> Value {
    with(&config(plugin, "1.0.0"), &cni_catalog::test_data(plugin).rich)
}

/// Returns what ADD answers on a new machine, and what it leaves, without what is random.
fn left_by(plugin: &str, input: &Value) -> (Value, Vec<String>) {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let outcome = call(&sandbox, plugin, Verb::Add, &container).config(input).run();
    assert!(outcome.succeeded(), "{input}: {outcome}");
    let lines = State::capture(&sandbox, &[&container]).lines();
    let random = [sandbox.host(), &*container].map(random_names).concat();
    // An index that a plugin keeps for itself beside leases holds times.
    let state = lines.iter().filter(|line| !line.contains("/.cni-plugins-rs/")).map(|line| hide(line, &random));
    let answer = serde_json::from_str(&hide(outcome.stdout(), &random)).expect("JSON");
    (answer, state.collect())
}

/// Returns names and addresses of links that no configuration decides.
fn random_names(namespace: &Namespace) -> Vec<String> {
    let links = Network::observe(namespace).links.into_iter().filter(|link| !link.mac.starts_with("02:00:00:00"));
    let random = links.filter(|link| link.mac != "00:00:00:00:00:00" && link.name != "lo").flat_map(|link| {
        let veth = link.name.starts_with("veth").then_some(link.name);
        [Some(link.mac), veth].into_iter().flatten()
    });
    random.collect()
}

fn hide(text: &str, random: &[String]) -> String {
    random.iter().fold(text.to_owned(), |text, name| text.replace(name.as_str(), "RANDOM"))
}

/// Writes all keys otherwise, and adds an unknown one to every object but that of kernel parameters, whose names are the kernel's.
fn spelled(value: &Value, change: fn(&str) -> String) -> Value {
    match value {
        Value::Object(entries) => {
            let below = |key: &str, value| if key == "sysctl" { Value::clone(value) } else { spelled(value, change) };
            let changed = entries.iter().map(|(key, value)| (change(key), below(key, value)));
            let unknown = json!({"name": "n9", "cniVersion": 9, "type": [null, {}, [1, -2.5e3]]});
            Value::Object(changed.chain([("x-unknown".to_owned(), unknown)]).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| spelled(item, change)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn pascal(key: &str) -> String {
    let (first, rest) = key.split_at(1);
    first.to_uppercase() + rest
}

/// flannel hands on the keys of its delegate as they are, and keeps them in a file.
#[test]
fn keys_are_taken_in_any_case_beside_unknown_ones() {
    for plugin in plugins::that_can_add().into_iter().filter(|plugin| *plugin != "flannel") {
        let config = rich(plugin);
        let (answer, state) = left_by(plugin, &config);
        assert_eq!(answer["cniVersion"], json!("1.0.0"), "{plugin}");
        for change in [str::to_uppercase, pascal] {
            let other = spelled(&config, change);
            let (found, left) = left_by(plugin, &other);
            assert_eq!(found, answer, "{plugin} with {other}");
            let changes = differences(&state, &left);
            assert!(changes.is_empty(), "{plugin} with {other} left something else:\n{}", changes.join("\n"));
        }
    }
}

/// Nomad's clients of old have leases in this place; a key in another case must not move them.
#[test]
fn the_ipam_plugin_reads_the_same_bytes_as_bridge() {
    let mut config = config("bridge", "1.0.0");
    config["ipam"] = json!({"TYPE": "host-local", "Subnet": "10.88.0.0/24", "DATADIR": LEASES});
    let (answer, state) = left_by("bridge", &config);
    assert_eq!(answer["ips"][0]["address"], json!("10.88.0.2/24"), "{answer}");
    let lease = format!("files: {LEASES}/n1/10.88.0.2 ");
    assert!(state.iter().any(|line| line.starts_with(&lease)), "{lease} in {state:#?}");
}
