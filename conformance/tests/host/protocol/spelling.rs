//! Keys in any case, keys that come twice, and `null`.
//!
//! Go's decoder takes keys without regard to case and the last of several; runtimes rely on it:
//! go-cni sends `HostPort`. What is `null` is as good as not there.

use cni_conformance::state::differences;
use cni_conformance::{Invocation, Namespace, Network, Sandbox, State, Verb, plugins};
use serde_json::{Map, Value, json};

use crate::protocol::keys::{self, KEYS};
use crate::protocol::{LEASES, call, config, with};

/// A configuration with every key that changes what ADD leaves.
pub fn rich(plugin: &str) -> Value {
    with(&config(plugin, "1.0.0"), &cni_catalog::test_data(plugin).rich)
}

/// What an ADD answered and left, without what is random.
struct AddOutcome {
    answer: Value,
    state: Vec<String>,
}

/// Runs ADD on a new machine.
fn left_by(plugin: &str, input: &str) -> AddOutcome {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let outcome = prepare(&sandbox, plugin, &container, input).run();
    assert!(matches!(outcome.code(), Some(0 | 1)), "{outcome}");
    let answer =
        if outcome.succeeded() { outcome.result() } else { serde_json::from_str(outcome.stdout()).expect("JSON") };
    let lines = State::capture(&sandbox, &[&container]).lines();
    let random = random_names(&sandbox);
    // An index that a plugin keeps for itself beside leases holds times.
    let state = lines.iter().filter(|line| !line.contains("/.cni-plugins-rs/")).map(|line| hide(line, &random));
    let state = state.collect();
    let answer = serde_json::from_str(&hide(&answer.to_string(), &random)).expect("JSON");
    AddOutcome { answer, state }
}

#[track_caller]
fn assert_equal(left: &AddOutcome, want: &AddOutcome, what: &str) {
    assert_eq!(left.answer, want.answer, "{what}");
    let changes = differences(&want.state, &left.state);
    assert!(changes.is_empty(), "{what} left something else:\n{}", changes.join("\n"));
}

fn prepare(sandbox: &Sandbox, plugin: &str, container: &Namespace, input: &str) -> Invocation {
    call(sandbox, plugin, Verb::Add, container).stdin(input.as_bytes())
}

/// Returns names and addresses of links that no configuration decides, on either side.
fn random_names(sandbox: &Sandbox) -> Vec<String> {
    let containers = [sandbox.host().clone(), sandbox.host().clone()];
    let links = containers.iter().flat_map(|namespace| Network::observe(namespace).links);
    let inside = sandbox.exec(&["ip", "-n", "ctr1", "-brief", "link", "show"]).stdout;
    let macs = inside.lines().filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned));
    let macs = macs.filter(|mac| !mac.starts_with("02:00:00:00") && !mac.starts_with("00:00:00:00"));
    let random = links.filter(|link| link.name != "lo").flat_map(|link| {
        let veth = link.name.starts_with("veth").then_some(link.name);
        [Some(link.mac), veth].into_iter().flatten()
    });
    random.chain(macs).collect()
}

fn hide(text: &str, random: &[String]) -> String {
    random.iter().fold(text.to_owned(), |text, name| text.replace(name.as_str(), "RANDOM"))
}

fn with_keys(value: &Value, change: fn(&str) -> String) -> Value {
    match value {
        Value::Object(entries) => {
            // The names of parameters are the kernel's.
            let below = |key: &str, value| if key == "sysctl" { Value::clone(value) } else { with_keys(value, change) };
            let changed = entries.iter().map(|(key, value)| (change(key), below(key, value)));
            Value::Object(changed.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| with_keys(item, change)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn pascal(key: &str) -> String {
    let mut letters = key.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[test]
fn keys_are_taken_in_any_case() {
    // flannel hands on the keys of its delegate as they are, and keeps them in a file.
    for plugin in plugins::that_can_add().into_iter().filter(|plugin| *plugin != "flannel") {
        let config = rich(plugin);
        let want = left_by(plugin, &config.to_string());
        assert!(want.answer["cniVersion"] == json!("1.0.0"), "{plugin}: {}", want.answer);
        let changes: [fn(&str) -> String; 3] = [str::to_uppercase, str::to_lowercase, pascal];
        for change in changes {
            let text = with_keys(&config, change).to_string();
            assert_equal(&left_by(plugin, &text), &want, &format!("{plugin} with {text}"));
        }
    }
}

/// Puts a second pair in front of the last brace.
fn and(config: &Value, pair: &str) -> String {
    let text = config.to_string();
    format!("{},{pair}}}", text.strip_suffix('}').expect("an object"))
}

#[test]
fn the_last_of_equal_keys_wins_whatever_their_case() {
    for plugin in plugins::that_can_add() {
        let last = left_by(plugin, &and(&config(plugin, "1.0.0"), "\"CNIVERSION\":\"1.1.0\""));
        assert_eq!(last.answer["cniVersion"], json!("1.1.0"), "{plugin}: {}", last.answer);
        let wrong = with(&config(plugin, "1.0.0"), &json!({"cniVersion": "9.9.9"}));
        let first = left_by(plugin, &and(&wrong, "\"cniVersion\":\"1.0.0\""));
        assert_eq!(first.answer["cniVersion"], json!("1.0.0"), "{plugin}: {}", first.answer);
    }
    for (plugin, first, second, key, value) in [
        ("bridge", json!({"bridge": "br1"}), "\"BRIDGE\":\"br2\"", "bridge", json!("br2")),
        ("firewall", json!({"ingressPolicy": "bogus"}), "\"ingresspolicy\":\"open\"", "ingressPolicy", json!("open")),
        ("firewall", json!({"ingressPolicy": "bogus"}), "\"ingressPolicy\":\"open\"", "ingressPolicy", json!("open")),
        ("portmap", json!({"snat": true}), "\"Snat\":false", "snat", json!(false)),
        ("portmap", json!({"snat": false}), "\"SNAT\":true", "snat", json!(true)),
        ("host-local", json!({"name": "n2"}), "\"NAME\":\"n3\"", "name", json!("n3")),
    ] {
        let twice = left_by(plugin, &and(&with(&config(plugin, "1.0.0"), &first), second));
        let once = left_by(plugin, &with(&config(plugin, "1.0.0"), &json!({key: value})).to_string());
        assert_equal(&twice, &once, &format!("{plugin} with {second} behind {first}"));
    }
}

/// A later `null` takes nothing back.
#[test]
fn a_null_behind_a_value_leaves_it() {
    for (plugin, key, null) in [
        ("bridge", json!({"bridge": "br2"}), "\"bridge\":null"),
        ("firewall", json!({"iptablesAdminChainName": "OTHER"}), "\"iptablesadminchainname\":null"),
        ("portmap", json!({"masqAll": true}), "\"masqAll\":null"),
        ("host-local", json!({"name": "n2"}), "\"name\":null"),
        ("loopback", json!({"cniVersion": "1.1.0"}), "\"cniVersion\":null"),
    ] {
        let config = with(&config(plugin, "1.0.0"), &key);
        let (with_null, without) = (left_by(plugin, &and(&config, null)), left_by(plugin, &config.to_string()));
        assert_equal(&with_null, &without, &format!("{plugin} with {null}"));
    }
}

/// Every key that a plugin has, one after the other. Go has other words for a subnet that is `null`.
#[test]
fn null_is_the_same_as_absent() {
    for &(plugin, pointer, _) in KEYS.iter().filter(|(_, pointer, _)| !pointer.ends_with("/0")) {
        let mut null = rich(plugin);
        keys::set(&mut null, pointer, json!(null));
        let mut absent = null.clone();
        keys::remove(&mut absent, pointer);
        let (null, absent) = (left_by(plugin, &null.to_string()), left_by(plugin, &absent.to_string()));
        assert_equal(&null, &absent, &format!("{plugin} with {pointer}: null"));
    }
}

/// Nomad's clients of old have leases in this place; a key in another case must not move them.
#[test]
fn the_ipam_plugin_reads_the_same_bytes_as_bridge() {
    let mut config = config("bridge", "1.0.0");
    config["ipam"] = json!({"TYPE": "host-local", "Subnet": "10.88.0.0/24", "DATADIR": LEASES});
    let left = left_by("bridge", &config.to_string());
    assert_eq!(left.answer["ips"][0]["address"], json!("10.88.0.2/24"), "{}", left.answer);
    let lease = format!("files: {LEASES}/n1/10.88.0.2 ");
    assert!(left.state.iter().any(|line| line.starts_with(&lease)), "{lease} in {:#?}", left.state);
}
