//! Changes the case of letters in a document's keys, which does not matter to plugins, as in the reference.

use cni_core::json::Json;

/// Objects whose keys are names that users choose; in these, case counts.
const CHOSEN: [&str; 2] = ["sysctl", "args"];

/// A document as text, with the case of all letters changed in keys that plugins know.
pub fn with_other_case(json: &Json) -> String {
    respelled(json).to_string()
}

/// The same, with the keys of inner objects as they are: for a plugin that passes them to another one.
pub fn with_other_case_outside(json: &Json) -> String {
    let Json::Object(entries) = json else { return json.to_string() };
    Json::Object(entries.iter().map(|(key, value)| (other_case(key), value.clone())).collect()).to_string()
}

fn respelled(json: &Json) -> Json {
    let is_chosen = |key: &str| CHOSEN.iter().any(|chosen| chosen.eq_ignore_ascii_case(key));
    let entry = |(key, value): &(String, Json)| {
        (other_case(key), if is_chosen(key) { value.clone() } else { respelled(value) })
    };
    match json {
        Json::Array(items) => Json::Array(items.iter().map(respelled).collect()),
        Json::Object(entries) => Json::Object(entries.iter().map(entry).collect()),
        Json::Null | Json::Bool(_) | Json::Integer(_) | Json::Float(_) | Json::String(_) => json.clone(),
    }
}

fn other_case(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() }).collect()
}
