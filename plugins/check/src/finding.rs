//! One mistake in a configuration.

use std::fmt;

/// A finding. Plugin and key say where it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The plugin, by its place and type (`plugins[1] portmap`); of a whole list `list`.
    pub plugin: String,
    /// The key by its path; empty if the finding is about the whole plugin or list.
    pub key: String,
    /// The mistake.
    pub wrong: String,
    /// What to write instead.
    pub instead: String,
}

impl Finding {
    /// A finding about a whole plugin or list.
    pub fn new(plugin: String, wrong: String, instead: String) -> Self {
        Self { plugin, key: String::new(), wrong, instead }
    }

    /// A finding about a key.
    pub fn of_key(plugin: &str, key: &str, wrong: String, instead: String) -> Self {
        Self { plugin: plugin.to_owned(), key: key.to_owned(), wrong, instead }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, key, wrong, instead } = self;
        let key = if key.is_empty() { String::new() } else { format!(", {key}") };
        write!(f, "{plugin}{key}: {wrong}; {instead}")
    }
}
