//! One mistake in a configuration, and the word that was probably meant.

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
    pub fn new(plugin: String, wrong: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { plugin, key: String::new(), wrong: wrong.into(), instead: instead.into() }
    }

    /// A finding about a key.
    pub fn of_key(plugin: &str, key: &str, wrong: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { plugin: plugin.to_owned(), key: key.to_owned(), wrong: wrong.into(), instead: instead.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, key, wrong, instead } = self;
        let key = if key.is_empty() { String::new() } else { format!(", {key}") };
        write!(f, "{plugin}{key}: {wrong}; {instead}")
    }
}

/// The known word that is nearest to a word, if it is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = match word.chars().count() {
        0..=3 => 1,
        4..=7 => 2,
        _ => 3,
    };
    let ranked = known.into_iter().map(|known| (distance(&word.to_lowercase(), &known.to_lowercase()), known));
    ranked.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// The number of letters that must be added, removed, replaced or swapped with their neighbour (Damerau-Levenshtein
/// distance).
pub fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (at, row) in rows.iter_mut().enumerate() {
        row[0] = at;
    }
    rows[0] = (0..=other.len()).collect();
    for at in 1..=one.len() {
        for to in 1..=other.len() {
            let replaced = rows[at - 1][to - 1] + usize::from(one[at - 1] != other[to - 1]);
            let mut least = replaced.min(rows[at - 1][to] + 1).min(rows[at][to - 1] + 1);
            if at > 1 && to > 1 && one[at - 1] == other[to - 2] && one[at - 2] == other[to - 1] {
                least = least.min(rows[at - 2][to - 2] + 1);
            }
            rows[at][to] = least;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn a_typo_is_near_and_another_word_is_not() {
        assert_eq!(distance("hairpinMode", "hairpinmode"), 1);
        assert_eq!(distance("mtu", "mut"), 1);
        let keys = ["mtu", "ipMasq", "isGateway", "isDefaultGateway"];
        assert_eq!(nearest("ipmask", keys), Some("ipMasq"));
        assert_eq!(nearest("MUT", keys), Some("mtu"));
        assert_eq!(nearest("gateway", keys), Some("isGateway"));
        assert_eq!(nearest("nerdctlID", keys), None);
    }
}
