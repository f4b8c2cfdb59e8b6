//! What the pages claim is compared with the sources: keys, error codes, messages, versions, commands, examples.

use std::collections::BTreeSet;

use cni_conformance::declared_keys::KEYS;
use cni_repo::{files, read, top};
use serde_json::Value;

use super::{pages, quoted, tables};

fn page(path: &str) -> String {
    read(&top().join(path))
}

#[test]
fn the_readme_has_at_most_900_words() {
    let words = page("README.md").split_whitespace().count();
    assert!(words <= 900, "{words} words");
}

/// Every key of a plugin, as the names on the way to it, by the rows of the plugins.
fn keys() -> Vec<(String, Vec<String>)> {
    let names = |pointer: &str| -> Vec<String> {
        pointer.split('/').skip(1).filter(|name| name.parse::<usize>().is_err()).map(str::to_owned).collect()
    };
    KEYS.iter().map(|(plugin, pointer, _)| ((*plugin).to_owned(), names(pointer))).collect()
}

fn is_word_of(name: &str, text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && !"_-".contains(c)).any(|word| word == name)
}

/// Keys of the SPEC, which only hold other keys.
const HOLDERS: [&str; 5] = ["ipam", "args", "cni", "runtimeConfig", "prevResult"];

#[test]
fn every_key_is_on_the_page_of_its_plugin_and_on_the_page_of_keys() {
    let rows = tables(&page("plugins/KEYS.md"), "| plugin | does | keys |");
    let is_holder = |name: &String| HOLDERS.contains(&name.as_str());
    for (plugin, names) in keys().into_iter().filter(|(_, names)| !names.last().is_some_and(is_holder)) {
        let key = names.join(".");
        let own = page(&format!("plugins/{plugin}/README.md"));
        assert!(names.last().is_some_and(|name| is_word_of(name, &own)), "{plugin}: its page does not name {key}");
        let row = rows.iter().find(|row| row[0].starts_with(&format!("[{plugin}]"))).expect("a row of the plugin");
        let listed: BTreeSet<&str> = quoted(&row[2]).flat_map(|key| key.split('.')).collect();
        // A listed key includes its inner keys: `dns` its name servers, `ipam` the key `ipam.type`.
        let stands = |name: &String| listed.contains(name.as_str()) && (!is_holder(name) || key == "ipam.type");
        assert!(names.iter().any(stands), "{plugin}: plugins/KEYS.md lacks {key}");
    }
}

#[test]
fn the_page_of_errors_lists_every_code() {
    let source = page("common/core/src/error.rs");
    let number =
        |line: &str| line.trim().strip_prefix("Self::")?.split_once(" => ")?.1.trim_end_matches(',').parse().ok();
    let codes: BTreeSet<u32> = source.lines().filter_map(number).collect();
    assert!(codes.len() > 10, "{codes:?}");
    let rows = tables(&page("common/ERRORS.md"), "| code | meaning |");
    let listed: BTreeSet<u32> = rows.iter().map(|row| row[0].parse().expect("one code in each row")).collect();
    assert_eq!(listed, codes, "left: common/ERRORS.md");
}

/// The sources of the plugins as one text, without the line breaks that a string of Rust can have.
fn sources() -> String {
    let folders = ["common", "plugins"].map(|folder| files(&top().join(folder)));
    let sources = folders.iter().flatten().filter(|file| file.extension().is_some_and(|end| end == "rs"));
    sources.map(|file| read(file)).collect()
}

#[test]
fn the_messages_in_troubleshooting_are_those_of_the_plugins() {
    let sources = sources();
    let page = page("TROUBLESHOOTING.md");
    let rows = tables(&page, "| message | cause | remedy |");
    let symptoms = tables(&page, "| symptom | cause | remedy |");
    assert!(rows.len() + symptoms.len() >= 25, "{} rows", rows.len() + symptoms.len());
    for row in rows {
        let message = quoted(&row[0]).next().unwrap_or_else(|| panic!("a message in backticks: {row:?}"));
        for part in message.split('…').map(|part| part.trim_matches(|c: char| " []:".contains(c))) {
            assert!(sources.contains(part), "no plugin prints {part:?} of {message:?}");
        }
    }
}

/// The versions that scripts name: `NOMAD_VERSION=v1.10.5`.
fn pinned() -> Vec<(String, String)> {
    let scripts = ["scripts/lib.sh", "scripts/runtimes/get.sh"].map(page);
    let version = |line: &str| {
        let (name, version) = line.split_once("_VERSION=v")?;
        Some((name.to_lowercase(), version.to_owned()))
    };
    scripts.iter().flat_map(|script| script.lines().filter_map(version)).collect()
}

#[test]
fn the_page_of_tested_versions_has_every_runtime_with_the_version_of_the_scripts() {
    let rows = tables(&page("conformance/TESTED.md"), "| runtime | where it comes from | what runs | command |");
    let script = page("scripts/runtimes.sh");
    let all = script.lines().find_map(|line| line.strip_prefix("ALL=(")).expect("the runtimes of scripts/runtimes.sh");
    for name in all.trim_end_matches(')').split(' ') {
        let command = format!("`scripts/runtimes.sh {name}`");
        let row = rows.iter().find(|row| row[3] == command).unwrap_or_else(|| panic!("no row of {name}"));
        if let Some((_, version)) = pinned().into_iter().find(|(pinned, _)| pinned == name) {
            let shown = row[0].to_lowercase();
            assert!(shown.starts_with(&format!("{name} {version}")), "{name}: {shown}, and the scripts have {version}");
        }
    }
}

/// The words behind `cni-plugins` in every command of the pages.
fn commands() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in pages() {
        for line in read(&path).lines().filter(|line| !line.contains("http")) {
            for rest in line.split("cni-plugins ").skip(1) {
                found.push((
                    path.display().to_string(),
                    rest.split(['`', '#', ';', ',', ')']).next().unwrap_or(rest).to_owned(),
                ));
            }
        }
    }
    found
}

#[test]
fn every_verb_and_option_of_the_pages_exists() {
    let tool = cni_admin::command_line::command();
    let mut seen = BTreeSet::new();
    for (place, command) in commands() {
        let mut words = command.split_whitespace();
        let Some(verb) = words.next().and_then(|verb| tool.find_subcommand(verb)) else { continue };
        seen.insert(verb.get_name().to_owned());
        let known: Vec<&str> = verb.get_arguments().filter_map(clap::Arg::get_long).collect();
        for option in words.filter_map(|word| word.strip_prefix("--")).filter(|option| *option != "help") {
            assert!(known.contains(&option), "{place}: cni-plugins {command}");
        }
    }
    assert!(seen.len() >= 7, "{seen:?}");
}

/// Whether a program of tests has tests of that path, as in `host rollback::injected::`.
fn selects_tests(command: &str) -> bool {
    let (program, path) = command.split_once(' ').unwrap_or((command, ""));
    if program == "cases" {
        let place = top().join("conformance/cases").join(path.trim_start_matches("-- "));
        return place.exists() || place.with_extension("case").exists();
    }
    let module = path.trim_end_matches("::").replace("::", "/");
    let below = if program == "host" { format!("host/{module}") } else { module.clone() };
    let tests = top().join("conformance/tests");
    let file = tests.join(below);
    let is_there = file.exists() || file.with_extension("rs").exists();
    ["host", "other_kernel", "plugins"].contains(&program) && (module.is_empty() || module == "<type>" || is_there)
}

#[test]
fn every_script_and_test_that_a_page_names_exists() {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c);
    for path in pages() {
        let text = read(&path);
        for rest in text.split("scripts/").skip(1) {
            let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
            if name.ends_with(".sh") {
                assert!(top().join("scripts").join(&name).exists(), "{}: no scripts/{name}", path.display());
            }
        }
        for rest in text.split("cni-conformance --test ").skip(1) {
            let command = rest.split(['`', '\n']).next().unwrap_or(rest);
            assert!(selects_tests(command), "{}: no test {command}", path.display());
        }
    }
}

#[test]
fn every_example_in_json_can_be_read() {
    let mut seen = 0;
    for path in pages() {
        let text = read(&path);
        for example in text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest)) {
            seen += 1;
            let parsed = serde_json::from_str::<Value>(example);
            assert!(parsed.is_ok(), "{}: {parsed:?}: {example}", path.display());
        }
    }
    assert!(seen >= 20, "{seen} examples");
}

#[test]
fn every_picture_can_be_read_in_the_dark() {
    for name in ["crates", "add"] {
        let picture = page(&format!("common/pictures/{name}.svg"));
        assert!(picture.contains("prefers-color-scheme: dark"), "{name}");
        assert!(page("ARCHITECTURE.md").contains(&format!("{name}.svg")), "{name}");
    }
}
