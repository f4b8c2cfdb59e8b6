//! The catalog of plugins and their keys.
//!
//! Each plugin describes itself once, in `plugins/<type>/plugin.json`. Every list of plugins or keys is derived from
//! these rows: the lists of the scripts and tests, the page of keys, `cni-plugins check` and the JSON Schema. The
//! crate holds data only and no code of a plugin, so the black-box tests can use it too.
#![forbid(unsafe_code)]

mod entry;
mod path;
mod test_data;

use std::sync::OnceLock;

use serde::de::DeserializeOwned;

pub use entry::{Entry, Format, Key, PluginKind, ValueType};
pub use test_data::{CommandSide, Damage, TestData};

include!(concat!(env!("OUT_DIR"), "/rows.rs"));

/// Every plugin, in alphabetical order.
pub fn entries() -> &'static [Entry] {
    static PARSED: OnceLock<Vec<Entry>> = OnceLock::new();
    PARSED.get_or_init(|| ENTRIES.into_iter().map(parse).collect())
}

/// The plugin of a name.
pub fn entry(name: &str) -> Option<&'static Entry> {
    entries().iter().find(|entry| entry.name == name)
}

/// The configurations by which tests call a plugin.
///
/// # Panics
/// If there is no plugin of this name.
pub fn test_data(name: &str) -> &'static TestData {
    static PARSED: OnceLock<Vec<TestData>> = OnceLock::new();
    let all = PARSED.get_or_init(|| TEST_DATA.into_iter().map(parse).collect());
    let place = NAMES.iter().position(|one| *one == name);
    &all[place.unwrap_or_else(|| panic!("there is no plugins/{name}/plugin.json"))]
}

fn parse<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("the build script has parsed it")
}
