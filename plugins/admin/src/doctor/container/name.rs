//! Which container is meant by a word: its ID, the beginning of it, or the name or path of its namespace.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// How many containers an error names.
const MOST_NAMED: usize = 3;

/// A container, and where its namespace is.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub container: &'a str,
    pub netns: Option<&'a str>,
}

/// A word that does not mean one container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerNameError {
    #[error("no container has the ID or namespace {word:?}; cni-plugins list --full shows all")]
    Unknown { word: String },
    #[error("{word:?} means {count} containers: {named}; write more of the ID")]
    Ambiguous { word: String, count: usize, named: String },
}

/// Finds the container that is meant. A whole ID comes before a namespace, and that before the beginning of an ID.
///
/// # Errors
/// [`ContainerNameError`] if there is none, or more than one.
pub fn find<'a>(
    word: &str,
    known: &[Known<'a>],
    is_same_file: impl Fn(&str, &str) -> bool,
) -> Result<&'a str, ContainerNameError> {
    let is_namespace = |one: &Known<'_>| {
        let matches = |path: &str| {
            let name = Path::new(path).file_name().and_then(|name| name.to_str());
            path == word || name == Some(word) || word.contains('/') && is_same_file(path, word)
        };
        one.netns.is_some_and(matches)
    };
    let by: [&dyn Fn(&Known<'_>) -> bool; 3] =
        [&|one| one.container == word, &is_namespace, &|one| !word.is_empty() && one.container.starts_with(word)];
    for is_meant in by {
        let meant: BTreeSet<&str> = known.iter().filter(|one| is_meant(one)).map(|one| one.container).collect();
        let mut all = meant.iter().copied();
        match (all.next(), meant.len()) {
            (None, _) => {}
            (Some(container), 1) => return Ok(container),
            (Some(_), count) => return Err(ambiguous(word, &meant, count)),
        }
    }
    Err(ContainerNameError::Unknown { word: word.to_owned() })
}

fn ambiguous(word: &str, meant: &BTreeSet<&str>, count: usize) -> ContainerNameError {
    let mut named: Vec<&str> = meant.iter().copied().take(MOST_NAMED).collect();
    if count > MOST_NAMED {
        named.push("…");
    }
    ContainerNameError::Ambiguous { word: word.to_owned(), count, named: named.join(", ") }
}

/// Whether two paths lead to the same file, as two paths to one namespace do.
pub fn is_same_file(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok());
    one.is_some() && one == other
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Known<'_>; 4] = [
        Known { container: "web-1", netns: Some("/run/netns/blue") },
        Known { container: "web-1", netns: Some("/run/netns/blue") },
        Known { container: "web-12", netns: Some("/proc/7/ns/net") },
        Known { container: "db-1", netns: None },
    ];

    fn found(word: &str) -> Result<&'static str, String> {
        let is_same = |one: &str, other: &str| (one, other) == ("/run/netns/blue", "/var/run/netns/blue");
        find(word, &KNOWN, is_same).map_err(|error| error.to_string())
    }

    #[test]
    fn an_id_its_beginning_and_a_namespace_mean_a_container() {
        for (word, container) in [
            ("web-1", "web-1"),
            ("web-12", "web-12"),
            ("d", "db-1"),
            ("blue", "web-1"),
            ("/run/netns/blue", "web-1"),
            ("/var/run/netns/blue", "web-1"),
            ("/proc/7/ns/net", "web-12"),
        ] {
            assert_eq!(found(word), Ok(container), "{word}");
        }
    }

    #[test]
    fn a_word_that_means_none_or_several_is_refused_in_a_sentence() {
        for word in ["", "x", "/run/netns/red"] {
            let says = format!("no container has the ID or namespace {word:?}; cni-plugins list --full shows all");
            assert_eq!(found(word), Err(says));
        }
        let says = "\"web\" means 2 containers: web-1, web-12; write more of the ID";
        assert_eq!(found("web"), Err(says.to_owned()));
        let many = ["a1", "a2", "a3", "a4"].map(|container| Known { container, netns: None });
        let error = find("a", &many, |_, _| false).expect_err("ambiguous");
        assert_eq!(error.to_string(), "\"a\" means 4 containers: a1, a2, a3, …; write more of the ID");
    }

    #[test]
    fn paths_to_one_file_are_the_same() {
        assert!(is_same_file("/proc/self/ns/net", "/proc/self/ns/net"));
        assert!(!is_same_file("/proc/self/ns/net", "/proc/self/ns/mnt"));
        assert!(!is_same_file("/nowhere", "/nowhere"));
    }
}
