//! Values that a key cannot take: refused before any work, with the key and the value named.
//!
//! Go names the field of its own structure and the type, and some values only the kernel's refusal
//! of them, when half the work is done; a few end it with a stack trace. The code is 2, 6 or 7.

use cni_conformance::{Invocation, Outcome, State, Verb, plugins, state};
use serde_json::{Value, json};

use crate::protocol::spelling::rich;
use crate::protocol::{PLUGINS, VERBS, call, with};

use KeyKind::{Flag, Integer, List, Object, Text};
use cni_conformance::declared_keys::{KEYS, KeyKind, RESULT};
use cni_conformance::keys::put;

/// Returns values of all other types.
fn wrong_types(kind: KeyKind) -> Vec<Value> {
    let all = [
        (Text, json!("no-such")),
        (Flag, json!(true)),
        (Integer, json!(4711)),
        (List, json!(["x"])),
        (Object, json!({"x": 1})),
    ];
    let wrong = all.into_iter().filter(|(other, _)| *other != kind).map(|(_, value)| value);
    wrong.chain([json!("4711"), json!(80.5)].into_iter().filter(|_| kind == Integer)).collect()
}

fn changed(plugin: &str, pointer: &str, value: &Value) -> Value {
    let mut config = rich(plugin);
    put(&mut config, pointer, value.clone());
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
    let key =
        pointer.rsplit('/').find(|part| part.parse::<usize>().is_err()).expect("a pointer has a key").to_lowercase();
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

fn of_wrong_types(plugin: &str) -> impl Iterator<Item = (String, Value)> {
    let own = KEYS.iter().filter(move |(of, _, _)| *of == plugin).map(|(_, pointer, kind)| (*pointer, *kind));
    let reads_result = plugins::that_read_prev_result().contains(&plugin);
    let rows = own.chain(RESULT.iter().copied().filter(move |_| reads_result));
    rows.flat_map(|(pointer, kind)| wrong_types(kind).into_iter().map(move |value| (pointer.to_owned(), value)))
}

/// Requires that ADD refuses each value, and that nothing is left of it.
#[track_caller]
fn assert_all_refused(plugin: &str, rows: impl IntoIterator<Item = (String, Value)>) {
    let sandbox = crate::protocol::sandbox();
    let container = sandbox.container("ctr1");
    let mut before = State::capture(&sandbox, &[&container]);
    let mut faults = Vec::new();
    for (pointer, value) in rows {
        let config = changed(plugin, &pointer, &value);
        let outcome = call(&sandbox, plugin, Verb::Add, &container).config(&config).run();
        faults.extend(fault(&outcome, &pointer, &value));
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
    assert!(faults.is_empty(), "{plugin}: {} values:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_value_of_a_wrong_type_is_named_with_its_key() {
    PLUGINS.iter().for_each(|plugin| assert_all_refused(plugin, of_wrong_types(plugin)));
}

#[test]
fn a_value_that_cannot_be_used_is_named_with_its_key() {
    PLUGINS.iter().for_each(|plugin| assert_all_refused(plugin, cni_catalog::test_data(plugin).unusable.clone()));
}

/// DEL and GC clean up what they can, CHECK and STATUS refuse what they look at; none crashes,
/// prints more than one object, or changes a machine where there is nothing to clean up. A first
/// ADD and DEL have made what all containers share. In a list of objects, `null` ends a Go plugin with status 2.
#[test]
fn no_command_crashes_or_leaves_a_trace_whatever_a_key_holds() {
    for plugin in plugins::that_can_add() {
        let sandbox = crate::protocol::sandbox();
        let container = sandbox.container("ctr1");
        for verb in [Verb::Add, Verb::Del] {
            call(&sandbox, plugin, verb, &container).config(&rich(plugin)).run().expect_success();
        }
        let before = State::capture(&sandbox, &[&container]);
        let unusable = cni_catalog::test_data(plugin).unusable.clone();
        for (pointer, value) in of_wrong_types(plugin).chain(unusable).chain(nulls(plugin)) {
            let config = with(&changed(plugin, &pointer, &value), &json!({"cniVersion": "1.1.0"}));
            for verb in VERBS.into_iter().filter(|verb| *verb != Verb::Add) {
                assert_orderly(&call(&sandbox, plugin, verb, &container).config(&config), &pointer, &value);
            }
        }
        state::assert_same(&before, &State::capture(&sandbox, &[&container]));
    }
}

/// `null` in each list of a plugin.
fn nulls(plugin: &str) -> Vec<(String, Value)> {
    let own = KEYS.iter().filter(|(of, pointer, _)| *of == plugin && pointer.ends_with("/0"));
    let result = ["/prevResult/interfaces/0", "/prevResult/ips/0", "/prevResult/routes/0"];
    own.map(|(_, pointer, _)| *pointer).chain(result).map(|pointer| (pointer.to_owned(), Value::Null)).collect()
}

#[test]
fn add_does_not_crash_on_null_in_a_list() {
    for plugin in plugins::that_can_add() {
        for (pointer, null) in nulls(plugin) {
            let sandbox = crate::protocol::sandbox();
            let container = sandbox.container("ctr1");
            let config = changed(plugin, &pointer, &null);
            assert_orderly(&call(&sandbox, plugin, Verb::Add, &container).config(&config), &pointer, &null);
        }
    }
}

#[track_caller]
fn assert_orderly(call: &Invocation, pointer: &str, value: &Value) {
    let outcome = call.run();
    let is_one = outcome.stdout().is_empty() || serde_json::from_str::<Value>(outcome.stdout()).is_ok();
    match outcome.code() {
        Some(0) => assert!(is_one, "{pointer} = {value}: {outcome}"),
        Some(1) => drop(outcome.error()),
        _ => panic!("{pointer} = {value}: {outcome}"),
    }
}
