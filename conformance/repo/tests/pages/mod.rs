//! The pages agree with the tree: tests that they name exist, every link has a target, keys, codes and
//! messages are those of the sources, and no file names a folder of the machine that it was written on.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use cni_repo::{files, read, top};

mod claims;

/// The folder of the harness and its pages.
fn folder() -> PathBuf {
    top().join("conformance")
}

fn pages() -> Vec<PathBuf> {
    let pages: Vec<PathBuf> =
        files(&top()).into_iter().filter(|file| file.extension().is_some_and(|e| e == "md")).collect();
    assert!(pages.len() > 10, "{pages:#?}");
    pages
}

/// The rows of every table with a header like this, each with its cells.
fn tables(page: &str, header: &str) -> Vec<Vec<String>> {
    let rows_behind = |(at, _): (usize, &str)| page.lines().skip(at + 2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    page.lines().enumerate().filter(|(_, line)| *line == header).flat_map(rows_behind).map(cells).collect()
}

/// What is written in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The source of a module of the tests.
fn test_source(module: &str) -> Option<String> {
    let path = folder().join("tests").join(module);
    [path.with_extension("rs"), path.join("mod.rs")].into_iter().find(|file| file.exists()).map(|file| read(&file))
}

#[test]
fn every_difference_to_the_reference_names_tests_that_exist() {
    let rows = tables(&read(&folder().join("BETTER.md")), "| the reference v1.9.1 | here | shown by |");
    assert!(rows.len() >= 40, "{rows:#?}");
    for row in rows {
        let [_, _, tests] = row.as_slice() else { panic!("three cells: {row:?}") };
        assert!(quoted(tests).count() > 0, "no test: {row:?}");
        for test in quoted(tests) {
            if test.ends_with(".case") {
                let case = read(&folder().join("cases").join(test));
                assert!(case.contains("\n# differs: "), "{test} does not say what the reference does");
                continue;
            }
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("file::test: {test}"));
            let source = test_source(file).unwrap_or_else(|| panic!("no file of tests/{file}"));
            assert!(source.contains(&format!("#[test]\nfn {name}() {{")), "{test} is not there");
        }
    }
}

/// The lines of a page that are text: without the blocks that show what to type or what is printed.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut shown = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        shown ^= fence;
        !shown && !fence
    })
}

/// A line without what is written in backticks, which is quoted and no link.
fn unquoted(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Where the links of a page lead.
fn links(page: &str) -> Vec<String> {
    let in_line = |line: &str| {
        let line = unquoted(line);
        line.split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(to, _)| to.to_owned())
            .collect::<Vec<_>>()
    };
    prose(page).flat_map(in_line).collect()
}

/// The name of a heading in links, as GitHub and others make it: small letters, no punctuation, `-` for a blank.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let heading = |line: &str| line.starts_with('#').then(|| anchor(line.trim_start_matches('#')));
    prose(page).filter_map(heading).collect()
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = read(&page);
        for link in links(&text).iter().filter(|link| !link.contains("://")) {
            seen += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(target.exists(), "{}: nothing is at {link}", page.display());
            if !heading.is_empty() {
                assert!(anchors(&read(&target)).contains(heading), "{}: no heading for {link}", page.display());
            }
        }
    }
    assert!(seen > 20, "{seen} links");
}

/// Folders of people's own machines. What is written for others names none of them.
const HOMES: [&str; 3] = ["root", "work", "home"];

fn names_a_home(text: &str) -> Option<&str> {
    let named = |line: &&str| HOMES.iter().any(|home| at_start(line, home));
    text.lines().find(named)
}

/// Whether a path that begins with this folder begins in a line where a path can: behind anything but a letter or another path.
fn at_start(line: &str, home: &str) -> bool {
    let path = format!("/{home}/");
    let begins = |(at, _): (usize, &str)| {
        line[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && !"/._-}$>".contains(before))
    };
    line.match_indices(&path).any(begins)
}

#[test]
fn a_path_is_distinguished_from_the_end_of_another() {
    for home in HOMES {
        assert!(names_a_home(&format!("see /{home}/me/notes")).is_some());
        assert!(names_a_home(&format!("(\"/{home}/me\")")).is_some());
        assert!(names_a_home(&format!("/dev/{home}/me, ${{dir}}/{home}/me")).is_none());
    }
}

#[test]
fn no_file_names_a_folder_of_somebodys_machine() {
    for file in files(&top()) {
        let text = String::from_utf8_lossy(&fs::read(&file).expect("read a file")).into_owned();
        assert_eq!(names_a_home(&text), None, "{}", file.display());
    }
}
