//! Collects every `plugins/*/plugin.json` into two tables: the data that ships, and the data that only tests need.
#![expect(clippy::disallowed_methods, reason = "a build script reads files and writes its output")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

#[path = "src/row.rs"]
#[expect(dead_code, reason = "the build script only validates")]
mod row;

fn main() {
    let plugins = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../plugins");
    // A new plugin is a new member of the workspace, and so changes this file.
    println!("cargo::rerun-if-changed={}", plugins.join("../Cargo.lock").display());
    let mut folders: Vec<PathBuf> =
        fs::read_dir(&plugins).expect("list plugins").map(|entry| entry.expect("an entry").path()).collect();
    folders.retain(|folder| folder.join("plugin.json").exists());
    folders.sort();
    let rows: Vec<_> = folders.iter().map(|folder| read(folder)).collect();
    let column = |of: fn(&(String, String, String)) -> &String| rows.iter().map(of).collect::<Vec<_>>();
    let (names, entries, tests) = (column(|row| &row.0), column(|row| &row.1), column(|row| &row.2));
    let number = rows.len();
    let source = format!(
        "/// Every plugin by its name in configurations, in alphabetical order.\n\
         pub const NAMES: [&str; {number}] = {names:?};\n\
         const ENTRIES: [&str; {number}] = {entries:?};\n\
         const TEST_DATA: [&str; {number}] = {tests:?};\n"
    );
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("rows.rs");
    fs::write(out, source).expect("write the tables");
}

/// Reads one row; returns the plugin's name, the entry, and the data for tests.
fn read(folder: &Path) -> (String, String, String) {
    let path = folder.join("plugin.json");
    println!("cargo::rerun-if-changed={}", path.display());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    let mut row: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let test = row.as_object_mut().and_then(|row| row.remove("tests")).unwrap_or_default();
    let entry: row::Entry =
        serde_json::from_value(row.clone()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let _: row::TestData =
        serde_json::from_value(test.clone()).unwrap_or_else(|error| panic!("{}: tests: {error}", path.display()));
    assert!(folder.ends_with(&entry.name), "{}: the type {:?} is not the folder's name", path.display(), entry.name);
    (entry.name, row.to_string(), test.to_string())
}
