//! `cni-plugins doctor CONTAINER`: what one container has, where it is kept, and what is wrong with it.
//!
//! A container is meant by its ID, the beginning of it, or the name or path of its namespace.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use crate::command_line::Scope;
use crate::inventory::{Depth, Inventory};
use crate::life::require_host;
use crate::output::{print, report, status};
use crate::repair::Tools;

mod about;
mod faults;

use super::has_problem;
use about::{About, json_text, plain_text};

/// Looks at the attachments of a container, and prints what was found.
pub fn run(name: &str, scope: &Scope, is_json: bool) -> Result<ExitCode, String> {
    require_host()?;
    let mut found = Inventory::observe(scope, Depth::Lives);
    report("cni-plugins doctor", &found.unknown);
    let container = find(name, &known(&found), is_same_file)?.to_owned();
    let tools = Tools::default();
    let own = found.attached.iter_mut().filter(|one| one.cached.at.container.as_str() == container);
    own.for_each(|one| one.examine(&tools));
    let about = About::observe(&container, &found)?;
    let mut findings = faults::findings(&container, &found);
    findings.iter_mut().for_each(|one| one.cure = one.cure.as_ref().map(|cure| scope.advised(cure)));
    let printed = print(&if is_json { json_text(&about, &findings) } else { plain_text(&about, &findings) });
    Ok(status(printed, !found.unknown.is_empty(), has_problem(&findings)))
}

fn known(found: &Inventory) -> Vec<Known<'_>> {
    let attached = found.attached.iter().map(|one| &one.cached);
    let all = attached.chain(found.left.iter().map(|left| &left.cached));
    all.map(|cached| Known { container: cached.at.container.as_str(), netns: cached.netns.as_deref() }).collect()
}

/// How many containers an error names.
const MOST_NAMED: usize = 3;

/// A container, and where its namespace is.
#[derive(Clone, Copy, Debug)]
struct Known<'a> {
    container: &'a str,
    netns: Option<&'a str>,
}

/// Finds the container that is meant. A whole ID comes before a namespace, and that before the beginning of an ID.
///
/// # Errors
/// In words, if there is none, or more than one.
fn find<'a>(word: &str, known: &[Known<'a>], is_same_file: impl Fn(&str, &str) -> bool) -> Result<&'a str, String> {
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
            (Some(_), count) => {
                let more = (count > MOST_NAMED).then_some("…");
                let named: Vec<&str> = meant.iter().copied().take(MOST_NAMED).chain(more).collect();
                return Err(format!("{word:?} means {count} containers: {}; write more of the ID", named.join(", ")));
            }
        }
    }
    Err(format!("no container has the ID or namespace {word:?}; cni-plugins list --full shows all"))
}

/// Whether two paths lead to the same file, as two paths to one namespace do.
fn is_same_file(one: &str, other: &str) -> bool {
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
        find(word, &KNOWN, is_same)
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
        assert_eq!(error, "\"a\" means 4 containers: a1, a2, a3, …; write more of the ID");
    }

    #[test]
    fn paths_to_one_file_are_the_same() {
        assert!(is_same_file("/proc/self/ns/net", "/proc/self/ns/net"));
        assert!(!is_same_file("/proc/self/ns/net", "/proc/self/ns/mnt"));
        assert!(!is_same_file("/nowhere", "/nowhere"));
    }
}
