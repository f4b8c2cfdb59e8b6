//! Compares an object of the configuration with the tree of its keys.

use cni_catalog::ValueType;
use serde_json::{Map, Value};

use crate::finding::Finding;
use crate::nearest::nearest;
use crate::tree::Node;
use crate::value::{of_type, within_limits};

/// Judges a value and all below it. `path` is where it is.
pub fn judge(value: &Value, node: &Node, path: &str, plugin: &str, findings: &mut Vec<Finding>) {
    let mut found = |(wrong, instead)| findings.push(Finding::of_key(plugin, path, wrong, instead));
    if let Some(wrong) = node.value.and_then(|expected| of_type(value, expected)) {
        return found(wrong);
    }
    if let Some(wrong) = node.key.and_then(|key| within_limits(value, key)) {
        return found(wrong);
    }
    match (value, &node.element) {
        (Value::Object(object), _) => judge_object(object, node, path, plugin, findings),
        (Value::Array(elements), Some(node)) => {
            for (at, element) in elements.iter().enumerate() {
                judge(element, node, &format!("{path}[{at}]"), plugin, findings);
            }
        }
        _ => {}
    }
}

fn judge_object(object: &Map<String, Value>, node: &Node, path: &str, plugin: &str, findings: &mut Vec<Finding>) {
    let place = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let is_free = node.keys.is_empty();
    for (name, value) in object {
        match node.find(name) {
            Some((known, below)) => {
                if known != name {
                    let wrong = format!("the key is written `{name}`; plugins accept it, other programs may not");
                    findings.push(Finding::of_key(plugin, &place(name), wrong, format!("write `{known}`")));
                }
                judge(value, below, &place(name), plugin, findings);
            }
            None if is_free => {
                let values = node.key.and_then(|key| key.elements);
                if let Some((wrong, instead)) = values.and_then(|expected| of_type(value, expected)) {
                    findings.push(Finding::of_key(plugin, &place(name), wrong, instead));
                }
            }
            None => findings.extend(unknown(name, node, &place(name), plugin)),
        }
    }
    for (name, below) in &node.keys {
        let is_required = below.key.is_some_and(|key| key.required);
        let is_there = object.iter().any(|(key, value)| key.eq_ignore_ascii_case(name) && !is_absent(value, below));
        if is_required && !is_there {
            let wrong = format!("`{name}` is missing");
            findings.push(Finding::of_key(plugin, &place(name), wrong, "the plugin cannot work without it".to_owned()));
        }
    }
}

fn is_absent(value: &Value, node: &Node) -> bool {
    value.is_null() || node.value == Some(ValueType::String) && value == ""
}

/// An unknown key. Where other programs have keys too, it counts only if it is nearly a known one.
fn unknown(name: &str, node: &Node, place: &str, plugin: &str) -> Option<Finding> {
    let near = nearest(name, node.keys.iter().map(|(key, _)| *key));
    let instead = match near {
        Some(near) => format!("write `{near}`"),
        None if node.is_open => return None,
        None => "remove it, or look up the key on the plugin's page".to_owned(),
    };
    let wrong = format!("the key `{name}` is unknown, and is ignored");
    Some(Finding::of_key(plugin, place, wrong, instead))
}
