//! What the pages say of the tests is there: the tests that the README names beside its claims, and
//! every file of this folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// The rows of the first table behind a line, each with its cells.
fn table(page: &str, behind: &str) -> Vec<Vec<String>> {
    let from = page.lines().skip_while(|line| *line != behind).skip_while(|line| !line.starts_with('|'));
    let lines = from.take_while(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_row_of_the_readme_names_tests_that_there_are() {
    let rows = table(&read(&folder().join("../README.md")), "## Better than the reference");
    assert!(rows.len() > 20, "{rows:#?}");
    for row in rows {
        let [_, _, tests] = row.as_slice() else { panic!("three cells: {row:?}") };
        assert!(quoted(tests).count() > 0, "no test: {row:?}");
        for test in quoted(tests) {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("file::test: {test}"));
            let source = read(&folder().join("tests").join(file).with_extension("rs"));
            assert!(source.contains(&format!("#[test]\nfn {name}() {{")), "{test} is not there");
        }
    }
}

#[test]
fn the_page_of_the_tests_lists_every_file() {
    let rows = table(&read(&folder().join("README.md")), "## The tests");
    let listed: BTreeSet<String> = rows.iter().filter_map(|row| quoted(&row[0]).next()).map(str::to_owned).collect();
    assert_eq!(listed.len(), rows.len(), "one row for each file");
    let mut found = BTreeSet::new();
    let mut folders = vec![folder().join("tests")];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("list {}: {error}", next.display())) {
            let path = entry.expect("read a list").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder().join("tests")).expect("a file below the folder");
                found.insert(name.to_str().expect("names are text").to_owned());
            }
        }
    }
    assert_eq!(listed, found);
}
