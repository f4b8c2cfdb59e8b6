//! Changes the case of letters in a document's keys, which does not matter to plugins, as in the reference.

use cni_core::json::Json;

/// Objects whose keys are names that users choose; in these, case counts.
const CHOSEN: [&str; 2] = ["sysctl", "args"];

/// A document as text, with the case of all letters changed in keys that plugins know.
pub fn with_other_case(json: &Json) -> String {
    let mut text = String::new();
    write(json, true, &mut text);
    text
}

/// The same, with the keys of inner objects as they are: for a plugin that passes them to another one.
pub fn with_other_case_outside(json: &Json) -> String {
    let Json::Object(entries) = json else { return plain(json) };
    let respelled = entries.iter().map(|(key, value)| (other_case(key), value.clone()));
    plain(&Json::Object(respelled.collect()))
}

/// A document as text.
pub fn plain(json: &Json) -> String {
    let mut text = String::new();
    write(json, false, &mut text);
    text
}

fn write(json: &Json, changes: bool, text: &mut String) {
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Json::Integer(value) => text.push_str(&value.to_string()),
        Json::Float(value) => text.push_str(&format!("{value:e}")),
        Json::String(value) => text.push_str(&quoted(value)),
        Json::Array(items) => list(text, ['[', ']'], items, |item, text| write(item, changes, text)),
        Json::Object(entries) => list(text, ['{', '}'], entries, |(key, value), text| {
            text.push_str(&quoted(&if changes { other_case(key) } else { key.clone() }));
            text.push(':');
            write(value, changes && !CHOSEN.iter().any(|chosen| chosen.eq_ignore_ascii_case(key)), text);
        }),
    }
}

fn list<T>(text: &mut String, [start, end]: [char; 2], items: &[T], write: impl Fn(&T, &mut String)) {
    text.push(start);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(item, text);
    }
    text.push(end);
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn other_case(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() }).collect()
}
