//! Values that a key cannot take: refused before any work, with the key and the value named.
//!
//! Go names the field of its own structure and the type, and some values only the kernel's refusal
//! of them, when half the work is done; a few end it with a stack trace. The code is 2, 6 or 7.

use cni_conformance::{Invocation, Outcome, State, Verb, plugins, state};
use serde_json::{Value, json};

use crate::protocol::spelling::rich;
use crate::protocol::{PLUGINS, VERBS, call, with};

use KeyKind::{Flag, Integer, List, Object, Text};
use cni_conformance::declared_keys::RESULT;
pub use cni_conformance::declared_keys::{KEYS, KeyKind};
pub use cni_conformance::keys::put as set;

/// Returns values of all other types.
fn wrong_types(kind: KeyKind) -> Vec<Value> {
    let all = [
        (Text, json!("no-such")),
        (Flag, json!(true)),
        (Integer, json!(4711)),
        (List, json!(["x"])),
        (Object, json!({"x": 1})),
    ];
    let mut wrong: Vec<Value> = all.into_iter().filter(|(other, _)| *other != kind).map(|(_, value)| value).collect();
    if kind == Integer {
        wrong.extend([json!("4711"), json!(80.5)]);
    }
    wrong
}

/// Takes away the key that a JSON pointer names.
pub fn remove(config: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer starts with a slash");
    let parent = config.pointer_mut(parent).and_then(Value::as_object_mut).expect("the key's object");
    parent.remove(key);
}

/// Returns the last part of a pointer that is a key.
fn key_of(pointer: &str) -> &str {
    pointer.rsplit('/').find(|part| part.parse::<usize>().is_err()).expect("a pointer has a key")
}

fn changed(plugin: &str, pointer: &str, value: &Value) -> Value {
    let mut config = rich(plugin);
    set(&mut config, pointer, value.clone());
    config
}

/// What is wrong with the answer to a value that cannot be used, if anything.
fn fault(outcome: &Outcome, pointer: &str, value: &Value) -> Option<String> {
    let said = outcome.stdout().split_whitespace().collect::<Vec<_>>().join(" ");
    let wrong = |what: &str| Some(format!("{pointer} = {value}: {what}: status {:?}, {said:.200}", outcome.code()));
    if outcome.code() != Some(1) || !outcome.stdout().starts_with('{') {
        return wrong("not refused with an error object");
    }
    let error = outcome.error();
    if ![2, 6, 7].contains(&error.code) {
        return wrong("not a code for configurations");
    }
    let said = format!("{}: {}", error.msg, error.details).to_lowercase();
    let key = key_of(pointer).to_lowercase();
    if !said.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == key) {
        return wrong("the key is not named");
    }
    let shown = match value {
        Value::String(text) => text.to_lowercase(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    };
    if said.contains(&shown) { None } else { wrong("the value is not named") }
}

/// Requires that ADD refuses each value, and that nothing is left of it.
fn assert_all_refused(plugin: &str, rows: &[(String, Value)]) {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let mut before = State::capture(&sandbox, &[&container]);
    let mut faults = Vec::new();
    for (pointer, value) in rows {
        let config = changed(plugin, pointer, value);
        let outcome = call(&sandbox, plugin, Verb::Add, &container).config(&config).run();
        faults.extend(fault(&outcome, pointer, value));
        if outcome.succeeded() {
            call(&sandbox, plugin, Verb::Del, &container).config(&config).run();
        }
        let after = State::capture(&sandbox, &[&container]);
        let changes = state::diff(&before, &after);
        if !outcome.succeeded() && !changes.is_empty() {
            faults.push(format!("{pointer} = {value} left behind:\n{}", changes.join("\n")));
        }
        before = after;
    }
    assert!(faults.is_empty(), "{} of {} values:\n{}", faults.len(), rows.len(), faults.join("\n"));
}

fn of_wrong_types(plugin: &str) -> Vec<(String, Value)> {
    let own = KEYS.iter().filter(|(of, _, _)| *of == plugin).map(|(_, pointer, kind)| (*pointer, *kind));
    let reads_result = plugins::that_read_prev_result().contains(&plugin);
    let result = RESULT.iter().copied().filter(|_| reads_result);
    let rows = own
        .chain(result)
        .flat_map(|(pointer, kind)| wrong_types(kind).into_iter().map(move |value| (pointer.to_owned(), value)));
    rows.collect()
}

fn of_unusable_values(plugin: &str) -> Vec<(String, Value)> {
    cni_catalog::test_data(plugin).unusable.clone()
}

#[test]
fn loopback_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("loopback", &of_wrong_types("loopback"));
}

#[test]
fn bridge_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("bridge", &of_wrong_types("bridge"));
}

#[test]
fn ptp_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("ptp", &of_wrong_types("ptp"));
}

#[test]
fn dummy_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("dummy", &of_wrong_types("dummy"));
}

#[test]
fn macvlan_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("macvlan", &of_wrong_types("macvlan"));
}

#[test]
fn host_device_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("host-device", &of_wrong_types("host-device"));
}

#[test]
fn vlan_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("vlan", &of_wrong_types("vlan"));
}

#[test]
fn dhcp_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("dhcp", &of_wrong_types("dhcp"));
}

#[test]
fn tap_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("tap", &of_wrong_types("tap"));
}

#[test]
fn tc_redirect_tap_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("tc-redirect-tap", &of_wrong_types("tc-redirect-tap"));
}

#[test]
fn ipvlan_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("ipvlan", &of_wrong_types("ipvlan"));
}

#[test]
fn flannel_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("flannel", &of_wrong_types("flannel"));
}

#[test]
fn host_local_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("host-local", &of_wrong_types("host-local"));
}

#[test]
fn firewall_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("firewall", &of_wrong_types("firewall"));
}

#[test]
fn portmap_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("portmap", &of_wrong_types("portmap"));
}

#[test]
fn tuning_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("tuning", &of_wrong_types("tuning"));
}

#[test]
fn sbr_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("sbr", &of_wrong_types("sbr"));
}

#[test]
fn vrf_names_the_key_and_the_value_of_a_wrong_type() {
    let rows = of_wrong_types("vrf");
    // A text of the wrong meaning is in another test.
    assert_all_refused("vrf", &rows);
}

#[test]
fn bandwidth_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("bandwidth", &of_wrong_types("bandwidth"));
}

#[test]
fn consul_cni_names_the_key_and_the_value_of_a_wrong_type() {
    assert_all_refused("consul-cni", &of_wrong_types("consul-cni"));
}

#[test]
fn a_value_that_cannot_be_used_is_named_with_its_key() {
    for plugin in PLUGINS {
        assert_all_refused(plugin, &of_unusable_values(plugin));
    }
}

/// Values that are wrong together, or by what is not there: both keys are named.
#[test]
fn keys_that_contradict_each_other_are_named() {
    let rows = [
        ("bridge", json!({"hairpinMode": true, "promiscMode": true}), ["hairpin", "promisc"]),
        ("bridge", json!({"disableContainerInterface": true}), ["disablecontainerinterface", "ipam"]),
        ("portmap", json!({"markMasqBit": 13, "externalSetMarkChain": "A"}), ["markmasqbit", "externalsetmarkchain"]),
        ("portmap", json!({"backend": "iptables", "conditionsV4": ["ip", "saddr"]}), ["iptables", "conditionsv4"]),
        ("firewall", json!({"backend": "none", "ingressPolicy": "isolated"}), ["backend", "ingresspolicy"]),
        ("ptp", json!({"ipam": null}), ["ipam", ""]),
        ("ptp", json!({"ipam": {"type": ""}}), ["ipam", ""]),
        ("macvlan", json!({"mode": "passthru"}), ["mode", "mac"]),
        ("vlan", json!({"master": null}), ["master", ""]),
        ("vlan", json!({"ipam": null}), ["ipam", ""]),
        ("ipvlan", json!({"ipam": null}), ["ipam", ""]),
        ("dummy", json!({"ipam": null}), ["ipam", ""]),
        ("dummy", json!({"ipam": {"type": ""}}), ["ipam", ""]),
        ("host-local", json!({"ipam": null}), ["ipam", ""]),
        ("host-local", json!({"ipam": {"type": "host-local"}, "runtimeConfig": null}), ["range", ""]),
        ("host-local", json!({"ipam": {"ranges": [[]]}, "runtimeConfig": null}), ["range", "empty"]),
        ("host-local", json!({"ipam": {"ranges": [[{}]]}, "runtimeConfig": null}), ["subnet", ""]),
        (
            "host-local",
            json!({"ipam": {"ranges": [[{"subnet": "10.88.0.0/24"}, {"subnet": "fd00:88::/64"}]]}}),
            ["10.88.0", "fd00:88:"],
        ),
        (
            "host-local",
            json!({"ipam": {"ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "10.88.0.0/16"}]]}}),
            ["10.88.0", "overlap"],
        ),
    ];
    for (plugin, keys, names) in rows {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let before = State::capture(&sandbox, &[&container]);
        let outcome = call(&sandbox, plugin, Verb::Add, &container).config(&with(&rich(plugin), &keys)).run();
        let error = outcome.error();
        assert!([2, 6, 7].contains(&error.code), "{keys}: {outcome}");
        let said = format!("{}: {}", error.msg, error.details).to_lowercase();
        assert!(names.iter().all(|name| said.contains(name)), "{names:?} for {keys}: {outcome}");
        state::assert_same(&before, &State::capture(&sandbox, &[&container]));
    }
}

/// Values that the reference takes, odd as they are.
#[test]
fn odd_values_that_the_reference_takes_are_taken() {
    let rows = [
        ("bridge", json!({"mtu": 0})),
        ("bridge", json!({"mtu": -5})),
        ("bridge", json!({"runtimeConfig": {"mac": ""}, "args": {"cni": {"mac": ""}}})),
        ("bridge", json!({"ipMasqBackend": null})),
        ("ptp", json!({"mtu": -5, "ipMasqBackend": null})),
        ("host-local", json!({"ipam": {"ranges": [[{"subnet": "10.88.0.0/024"}]]}, "args": {}, "runtimeConfig": {}})),
        ("host-local", json!({"ipam": {"subnet": "10.88.0.0/24", "dataDir": ""}, "args": {}, "runtimeConfig": {}})),
        ("firewall", json!({"backend": ""})),
        ("firewall", json!({"backend": "none", "ingressPolicy": ""})),
        ("firewall", json!({"iptablesAdminChainName": "", "ingressPolicy": ""})),
        ("portmap", json!({"runtimeConfig": {"portMappings": []}})),
        ("portmap", json!({"runtimeConfig": {}})),
        ("portmap", json!({"markMasqBit": 0})),
        ("portmap", json!({"conditionsV4": [], "conditionsV6": []})),
        (
            "portmap",
            json!({"runtimeConfig": {"portMappings": [
                {"hostPort": 8080, "containerPort": 80, "protocol": "TCP", "hostIP": ""},
            ]}}),
        ),
    ];
    for (plugin, keys) in rows {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let config = with(&rich(plugin), &keys);
        let outcome = call(&sandbox, plugin, Verb::Add, &container).config(&config).run();
        assert!(outcome.succeeded(), "{keys}: {outcome}");
    }
}

/// DEL and GC clean up what they can, CHECK and STATUS refuse what they look at; none crashes,
/// prints more than one object, or changes a machine where there is nothing to clean up. A first
/// ADD and DEL have made what all containers share.
#[test]
fn no_command_crashes_or_leaves_a_trace_whatever_a_key_holds() {
    for plugin in plugins::that_can_add() {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        for verb in [Verb::Add, Verb::Del] {
            call(&sandbox, plugin, verb, &container).config(&rich(plugin)).run().expect_success();
        }
        let before = State::capture(&sandbox, &[&container]);
        let nulls = KEYS.iter().filter(|(of, pointer, _)| *of == plugin && pointer.ends_with("/0"));
        let nulls = nulls.map(|(_, pointer, _)| ((*pointer).to_owned(), json!(null)));
        let result = ["interfaces", "ips", "routes"].map(|list| (format!("/prevResult/{list}/0"), json!(null)));
        let rows = of_wrong_types(plugin).into_iter().chain(of_unusable_values(plugin)).chain(nulls).chain(result);
        for (pointer, value) in rows {
            let config = with(&changed(plugin, &pointer, &value), &json!({"cniVersion": "1.1.0"}));
            for verb in VERBS.into_iter().filter(|verb| *verb != Verb::Add) {
                assert_orderly(&call(&sandbox, plugin, verb, &container).config(&config), &pointer, &value);
            }
        }
        let changes = state::diff(&before, &State::capture(&sandbox, &[&container]));
        assert!(changes.is_empty(), "{plugin} left behind:\n{}", changes.join("\n"));
    }
}

/// In a list of objects, `null` ends a Go plugin with status 2.
#[test]
fn add_does_not_crash_on_null_in_a_list() {
    let lists =
        KEYS.iter().filter(|(_, pointer, _)| pointer.ends_with("/0")).map(|(plugin, pointer, _)| (*plugin, *pointer));
    let results = plugins::that_read_prev_result().into_iter().flat_map(|plugin| {
        ["/prevResult/interfaces/0", "/prevResult/ips/0", "/prevResult/routes/0"].map(|at| (plugin, at))
    });
    for (plugin, pointer) in lists.chain(results) {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        let config = changed(plugin, pointer, &json!(null));
        assert_orderly(&call(&sandbox, plugin, Verb::Add, &container).config(&config), pointer, &json!(null));
    }
}

#[track_caller]
fn assert_orderly(call: &Invocation, pointer: &str, value: &Value) {
    let outcome = call.run();
    match outcome.code() {
        Some(0) => {
            let said = outcome.stdout();
            let one = said.is_empty() || serde_json::from_str::<Value>(said).is_ok();
            assert!(one, "{pointer} = {value}: {outcome}");
        }
        Some(1) => drop(outcome.error()),
        _ => panic!("{pointer} = {value}: {outcome}"),
    }
}
