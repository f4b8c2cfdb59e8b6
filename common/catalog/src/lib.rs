//! The catalog of plugins and their keys.
//!
//! Each plugin describes itself once, in `plugins/<type>/plugin.json`. Every list of plugins or keys is derived from
//! these rows: the lists of the scripts and tests, the page of keys, `cni-plugins check` and the JSON Schema. The
//! crate holds data only and no code of a plugin, so the black-box tests can use it too.
#![forbid(unsafe_code)]

mod row;

use std::sync::OnceLock;

use serde::de::DeserializeOwned;

pub use row::{CommandSide, Damage, Entry, Format, Key, PluginKind, TestData, ValueType};

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

/// What `dns` holds.
const DNS: [(&str, ValueType); 8] = [
    ("", ValueType::Object),
    (".nameservers", ValueType::List),
    (".nameservers[]", ValueType::String),
    (".domain", ValueType::String),
    (".search", ValueType::List),
    (".search[]", ValueType::String),
    (".options", ValueType::List),
    (".options[]", ValueType::String),
];

impl Entry {
    /// Every place of a configuration that has a type, as JSON pointers with the first element of each list: the keys,
    /// and the objects and lists that lead to them.
    pub fn places(&self) -> Vec<(String, ValueType)> {
        let mut places: Vec<(String, ValueType)> = Vec::new();
        let mut add = |path: &str, value: ValueType| {
            let place = pointer(path);
            if !places.iter().any(|(other, _)| *other == place) {
                places.push((place, value));
            }
        };
        for key in &self.keys {
            for (path, value) in holders(&key.key) {
                add(path, value);
            }
            if key.value == ValueType::Dns {
                for (rest, value) in DNS {
                    add(&format!("{}{rest}", key.key), value);
                }
            } else {
                add(&key.key, key.value);
            }
        }
        places
    }
}

/// The objects and lists around a key, outermost first.
fn holders(path: &str) -> impl Iterator<Item = (&str, ValueType)> {
    path.char_indices().filter_map(move |(place, letter)| {
        let value = match letter {
            '.' => ValueType::Object,
            '[' => ValueType::List,
            _ => return None,
        };
        Some((&path[..place], value))
    })
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace("[]", "/0").replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::{ValueType, holders, pointer};

    #[test]
    fn the_holders_of_a_key_have_types() {
        let found: Vec<_> = holders("ipam.ranges[][].subnet").collect();
        let (object, list) = (ValueType::Object, ValueType::List);
        assert_eq!(
            found,
            [("ipam", object), ("ipam.ranges", list), ("ipam.ranges[]", list), ("ipam.ranges[][]", object)]
        );
        assert_eq!(pointer("ipam.ranges[][].subnet"), "/ipam/ranges/0/0/subnet");
    }
}
