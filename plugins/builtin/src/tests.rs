//! Every list of plugins agrees with the rows, `plugins/*/plugin.json`. A test that fails names the file to change.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use cni_catalog::{Entry, Key, NAMES, PluginKind, entries};

use super::{PLUGINS, plugin, plugin_of_file};

/// The page of keys, which is made from the rows.
const PAGE: &str = "plugins/KEYS.md";
const HEAD: &str = "| plugin | does | keys |\n|---|---|---|\n";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

/// The plugins that have a row.
fn rows() -> BTreeSet<String> {
    NAMES.map(str::to_owned).into()
}

/// Returns the text between two others; the first must occur once.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{start:?} is not there"));
    rest.split(end).next().unwrap_or(rest)
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| c.is_whitespace() || "\",`[]';".contains(c))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The names on each side that the other lacks.
fn assert_same(file: &str, found: &BTreeSet<String>) {
    let (missing, unknown): (Vec<_>, Vec<_>) =
        (rows().difference(found).cloned().collect(), found.difference(&rows()).cloned().collect());
    assert!(missing.is_empty() && unknown.is_empty(), "{file} lacks {missing:?}, and names {unknown:?} without a row");
}

#[test]
fn every_folder_with_a_plugin_has_a_row() {
    let folders =
        fs::read_dir(top().join("plugins")).expect("list plugins").map(|entry| entry.expect("an entry").path());
    let is_plugin = |folder: &PathBuf| {
        fs::read_to_string(folder.join("src/lib.rs")).is_ok_and(|source| source.contains("impl Plugin for"))
    };
    let names = folders
        .filter(is_plugin)
        .filter_map(|folder| folder.file_name().and_then(|name| name.to_str()).map(str::to_owned));
    for name in names {
        assert!(rows().contains(&name), "plugins/{name}/plugin.json is missing");
    }
}

#[test]
fn the_binary_has_every_plugin() {
    let found = PLUGINS.iter().map(|plugin| plugin.kind().to_owned()).collect();
    assert_same("PLUGINS of plugins/builtin/src/lib.rs", &found);
}

#[test]
fn the_rows_say_what_the_code_says() {
    for plugin in PLUGINS {
        let Some(entry) = cni_catalog::entry(plugin.kind()) else { continue };
        let row = format!("plugins/{}/plugin.json", entry.name);
        let oldest = plugin.versions().first().map(ToString::to_string);
        assert_eq!(oldest.as_ref(), Some(&entry.oldest_version), "oldestVersion of {row}");
        let level = entry.reference_level.as_deref().unwrap_or("1.9.1");
        assert_eq!(plugin.reference_level(), level, "referenceLevel of {row}");
    }
}

#[test]
fn the_readme_names_every_plugin() {
    let readme = read("README.md");
    let opening = between(&readme, "Rust: ", ".");
    let named: Vec<&str> = opening.split('`').skip(1).step_by(2).collect();
    assert_same("the opening of README.md", &words(&named.join(" ")));
}

#[test]
fn the_changelog_names_every_plugin() {
    let changelog = read("CHANGELOG.md");
    for name in NAMES {
        assert!(changelog.contains(&format!("`{name}`")), "CHANGELOG.md does not name {name}");
    }
}

/// Loopback and static make nothing that has to be removed.
#[test]
fn the_architecture_says_what_every_plugin_makes_and_who_removes_it() {
    let page = read("ARCHITECTURE.md");
    let table = between(&page, "## Who removes what", "##");
    for entry in entries().iter().filter(|entry| !["loopback", "static"].contains(&entry.name.as_str())) {
        let named = table.lines().any(|line| words(&line.replace('|', " ")).contains(&entry.name));
        assert!(named, "ARCHITECTURE.md, Who removes what: no row names {}", entry.name);
    }
}

#[test]
fn every_plugin_has_cases_of_its_own() {
    for name in NAMES.into_iter().filter(|name| *name != "dhcp") {
        let folder = top().join("conformance/cases").join(name);
        let cases = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        assert!(cases > 0, "{} has {cases} cases", folder.display());
    }
    assert!(
        top().join("conformance/tests/dhcp/mod.rs").exists(),
        "dhcp has a server and a daemon, so its tests are programs"
    );
}

#[test]
fn every_page_has_an_example_with_the_plugin() {
    for kind in NAMES {
        let page = read(&format!("plugins/{kind}/README.md"));
        assert!(page.starts_with(&format!("# {kind}\n")), "plugins/{kind}/README.md begins with its name");
        let example = between(&page, "```json\n", "```");
        serde_json::from_str::<serde_json::Value>(example).unwrap_or_else(|error| panic!("{kind}: {error}: {example}"));
        assert!(example.contains(&format!("\"type\": \"{kind}\"")), "{kind} is not in its own example: {example}");
    }
}

/// Without it no case would show that CHECK of a chained plugin finds anything.
#[test]
fn every_chained_plugin_says_how_to_remove_what_it_makes() {
    for entry in entries().iter().filter(|entry| entry.kind == PluginKind::Chained) {
        let data = cni_catalog::test_data(&entry.name);
        assert!(data.damage.is_some(), "plugins/{}/plugin.json: no damage", entry.name);
    }
}

#[test]
fn a_name_with_a_hyphen_is_the_plugin_before_it() {
    for (name, kind) in [
        ("flannel", Some("flannel")),
        ("flannel-wg", Some("flannel")),
        ("host-local", Some("host-local")),
        ("host-local-2", Some("host-local")),
        ("bridge-", Some("bridge")),
        ("bridges", None),
        ("host", None),
        ("cni-plugins", None),
        ("cni", None),
        ("", None),
    ] {
        assert_eq!(plugin(name).map(|plugin| plugin.kind()), kind, "{name}");
    }
    for kind in PLUGINS.map(|plugin| plugin.kind()) {
        assert_eq!(plugin(kind).map(|found| found.kind()), Some(kind));
    }
}

#[test]
fn the_links_of_a_file_come_before_the_end_of_its_name() {
    for (names, kind) in [
        (&["cnv-bridge", "ptp"][..], Some("ptp")),
        (&["bridge-1", "ptp"], Some("bridge")),
        (&["any", "cnv-route-override", "cni-plugins"], Some("route-override")),
        (&["x-tc-redirect-tap"], Some("tc-redirect-tap")),
        (&["x-local", "host", "bridge.bin", "mybridge", "-"], None),
    ] {
        let found = plugin_of_file(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(found.map(|plugin| plugin.kind()), kind, "{names:?}");
    }
}

/// `UPDATE_PAGES=1` writes the page instead.
#[test]
fn the_page_of_keys_is_that_of_the_rows() {
    let page = read(PAGE);
    let (start, _) = page.split_once(HEAD).expect("the head of the table");
    let wanted = format!("{start}{HEAD}{}", table());
    if env::var_os("UPDATE_PAGES").is_some() {
        fs::write(top().join(PAGE), &wanted).expect("write the page");
    }
    let command = "UPDATE_PAGES=1 cargo test -p cni-builtin keys";
    assert!(read(PAGE) == wanted, "{PAGE} is not that of the rows; make it by: {command}");
}

fn table() -> String {
    use PluginKind::{Chained, Interface, Ipam, Loopback};
    let mut table = String::new();
    for kind in [Loopback, Interface, Ipam, Chained] {
        for entry in entries().iter().filter(|entry| entry.kind == kind) {
            let (name, does) = (&entry.name, &entry.does);
            writeln!(table, "| [{name}]({name}/README.md) | {does} | {} |", keys(entry))
                .expect("a string takes everything");
        }
    }
    table
}

/// The keys of a plugin in a line; those inside lists stand in parentheses behind their list.
fn keys(entry: &Entry) -> String {
    let mut shown: Vec<(String, Vec<&str>)> = Vec::new();
    for key in entry.keys.iter().filter(|key| key.key != "prevResult") {
        let (outer, inner) = parts(entry, key);
        match shown.iter_mut().find(|(name, _)| *name == outer) {
            Some((_, list)) => list.extend(inner),
            None => shown.push((outer, inner.into_iter().collect())),
        }
    }
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ");
    let listed = shown.iter().map(|(name, inner)| match inner[..] {
        [] => format!("`{name}`"),
        _ => format!("`{name}` ({})", quoted(inner)),
    });
    let listed = listed.collect::<Vec<_>>().join(" ");
    let args = quoted(&entry.args.iter().map(String::as_str).collect::<Vec<_>>());
    match (listed.is_empty(), args.is_empty()) {
        (true, true) => "–".to_owned(),
        (false, true) => listed,
        (true, false) => format!("CNI_ARGS {args}"),
        (false, false) => format!("{listed}; CNI_ARGS {args}"),
    }
}

/// The name under which a key is listed, and its name in the list's elements.
fn parts<'a>(entry: &Entry, key: &'a Key) -> (String, Option<&'a str>) {
    let own = if entry.kind == PluginKind::Ipam { key.key.strip_prefix("ipam.") } else { None };
    let path = own.unwrap_or(if key.key == "ipam.type" { "ipam" } else { &key.key });
    match path.split_once("[]") {
        Some((list, rest)) => (
            list.to_owned(),
            Some(rest.trim_start_matches("[]").trim_start_matches('.')).filter(|name| !name.is_empty()),
        ),
        None => (path.to_owned(), None),
    }
}
