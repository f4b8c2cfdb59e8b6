//! The path of a key, such as `ipam.ranges[][].subnet`.

use crate::entry::{Entry, Key, ValueType};

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

impl Key {
    /// The JSON pointer of the key, with the first element of each list.
    pub fn pointer(&self) -> String {
        pointer(&self.key)
    }
}

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
