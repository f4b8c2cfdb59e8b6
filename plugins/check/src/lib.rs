//! Checks network configuration lists against the rows of the plugins, and makes a JSON Schema of the rows.
//!
//! CNI ignores unknown keys, so a misspelt key has no effect and no error. This crate compares a list with
//! `plugins/*/plugin.json`: unknown keys, types, limits, formats, capabilities, and the order of plugins. Keys of
//! plugins without a row are not judged. This crate reads no file: `cni-plugins check` does.
#![forbid(unsafe_code)]

use cni_core::version::Version;
use serde_json::{Map, Value};

use finding::nearest;

mod finding;
mod network;
mod plugin;
pub mod schema;
mod tree;
mod value;

pub use finding::Finding;
pub use network::Network;

const LIST: &str = "list";

/// The keys of a list.
const KEYS: [&str; 7] =
    ["cniVersion", "cniVersions", "name", "disableCheck", "disableGC", "loadOnlyInlinedPlugins", "plugins"];

/// The findings in one file, and what to compare with other files.
#[derive(Debug, Default)]
pub struct Judgement {
    pub findings: Vec<Finding>,
    pub network: Network,
}

/// Judges the text of a file: a configuration list, or a single configuration.
pub fn judge(text: &str) -> Judgement {
    let mut judgement = Judgement::default();
    match serde_json::from_str(text) {
        Ok(list) => judge_document(&list, &mut judgement.network, &mut judgement.findings),
        Err(error) => judgement.findings.push(Finding::new(
            format!("line {}, column {}", error.line(), error.column()),
            format!("this is not JSON: {error}"),
            "correct the syntax; no runtime can read the file",
        )),
    }
    judgement
}

/// Judges a document.
fn judge_document(list: &Value, network: &mut Network, findings: &mut Vec<Finding>) {
    let Some(keys) = list.as_object() else {
        let instead = "write {\"cniVersion\": …, \"name\": …, \"plugins\": […]}";
        return findings.push(Finding::new(LIST.to_owned(), "the file holds no JSON object", instead));
    };
    findings.extend(version(keys));
    findings.extend(name(keys));
    let version = keys.get("cniVersion").and_then(Value::as_str);
    network.name = keys.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    match keys.get("plugins") {
        Some(Value::Array(plugins)) => {
            findings.extend(unknown_keys(keys));
            if plugins.is_empty() {
                let instead = "write at least one {\"type\": …}";
                findings.push(Finding::of_key(LIST, "plugins", "the list has no plugin", instead));
            }
            for (at, plugin) in plugins.iter().enumerate() {
                plugin::judge(plugin, Some(at), version, network, findings);
            }
        }
        Some(found) => {
            let wrong = format!("`plugins` is not a list but {found}");
            findings.push(Finding::of_key(LIST, "plugins", wrong, "write [{\"type\": …}]"));
        }
        None if keys.contains_key("type") => {
            plugin::judge(list, None, version, network, findings);
        }
        None => {
            let near = nearest("plugins", keys.keys().map(String::as_str));
            let wrong = near.map_or("there is neither `plugins` nor `type`".to_owned(), |near| {
                format!("there is no `plugins`, but a key `{near}`")
            });
            findings.push(Finding::of_key(LIST, "plugins", wrong, "write `plugins`, a list of plugins"));
        }
    }
}

fn version(keys: &Map<String, Value>) -> Option<Finding> {
    let newest = Version::ALL.last().map(ToString::to_string).unwrap_or_default();
    let found = keys.get("cniVersion").filter(|found| !found.is_null())?;
    if found.as_str().is_some_and(|text| text.is_empty() || Version::parse(text).is_some()) {
        return None;
    }
    let wrong = format!("{found} is not a version of the CNI specification");
    let instead = format!("write a string such as \"1.0.0\", at most \"{newest}\"");
    Some(Finding::of_key(LIST, "cniVersion", wrong, instead))
}

/// The specification's form of a network's name.
fn name(keys: &Map<String, Value>) -> Option<Finding> {
    let is_word = |text: &str| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    let (wrong, instead) = match keys.get("name") {
        Some(Value::String(text)) if is_word(text) => return None,
        None => ("the network has no `name`".to_owned(), "add \"name\": \"…\"".to_owned()),
        Some(found) => (
            format!("{found} is not the name of a network"),
            "write letters and digits, and behind the first also `_`, `.` and `-`".to_owned(),
        ),
    };
    Some(Finding::of_key(LIST, "name", wrong, instead))
}

/// Runtimes keep keys of their own here, so only what is nearly a known key counts.
fn unknown_keys(keys: &Map<String, Value>) -> Vec<Finding> {
    let unknown = keys.keys().filter(|key| !KEYS.contains(&key.as_str()));
    let near = unknown.filter_map(|key| Some((key, nearest(key, KEYS)?)));
    near.map(|(key, near)| {
        let wrong = format!("the key `{key}` is unknown, and is ignored");
        Finding::of_key(LIST, key, wrong, format!("write `{near}`"))
    })
    .collect()
}
