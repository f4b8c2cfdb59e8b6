//! Every list of plugins names the same ones. If a new plugin is missing from a list, a test here names the list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::PLUGINS;

/// The folders that are no plugin.
const OTHERS: [&str; 2] = ["admin", "builtin"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

/// The plugins of the binary.
fn kinds() -> BTreeSet<String> {
    PLUGINS.iter().map(|plugin| plugin.kind().to_owned()).collect()
}

/// The text between two others, of which the first comes once.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{start:?} is not there"));
    rest.split(end).next().unwrap_or(rest)
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| c.is_whitespace() || "\",`[]".contains(c))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_folder_is_a_plugin_of_the_binary() {
    let folders =
        fs::read_dir(top().join("plugins")).expect("list plugins").map(|entry| entry.expect("an entry").path());
    let is_plugin =
        |folder: &PathBuf| folder.join("src/lib.rs").exists() && !OTHERS.iter().any(|one| folder.ends_with(one));
    let libraries = folders.filter(is_plugin);
    let names = libraries.filter_map(|folder| folder.file_name().and_then(|name| name.to_str()).map(str::to_owned));
    assert_eq!(names.collect::<BTreeSet<_>>(), kinds(), "left: the folders of plugins, right: PLUGINS of builtin");
}

#[test]
fn the_scripts_install_every_plugin() {
    assert_eq!(words(between(&read("scripts/lib.sh"), "\nPLUGINS=(", ")")), kinds(), "left: PLUGINS of scripts/lib.sh");
}

#[test]
fn the_black_box_tests_know_every_plugin() {
    let list = read("conformance/src/plugins.rs");
    let all = between(between(&list, "pub const ALL", ";\n"), "] =", ";");
    assert_eq!(words(all), kinds(), "left: ALL of conformance");
}

#[test]
fn the_page_of_keys_lists_every_plugin_with_its_page() {
    let row = |line: &str| {
        let (name, rest) = line.strip_prefix("| [")?.split_once(']')?;
        rest.starts_with(&format!("({name}/README.md) |")).then(|| name.to_owned())
    };
    let page = read("plugins/KEYS.md");
    assert_eq!(page.lines().filter_map(row).collect::<BTreeSet<_>>(), kinds(), "left: the table of plugins/KEYS.md");
}

#[test]
fn the_readme_names_every_plugin() {
    let readme = read("README.md");
    let opening = between(&readme, "Rust: ", ".");
    assert_eq!(words(&opening.replace(" and ", " ")), kinds(), "left: the opening of README.md");
}

#[test]
fn every_page_has_an_example_with_the_plugin() {
    for kind in kinds() {
        let page = read(&format!("plugins/{kind}/README.md"));
        assert!(page.starts_with(&format!("# {kind}\n")), "the page of {kind} begins with its name");
        let example = between(&page, "```json\n", "```");
        serde_json::from_str::<serde_json::Value>(example).unwrap_or_else(|error| panic!("{kind}: {error}: {example}"));
        assert!(example.contains(&format!("\"type\": \"{kind}\"")), "{kind} is not in its own example: {example}");
    }
}
