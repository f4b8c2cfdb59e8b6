//! The files of this repository, for the tests of its pages, modules and packages.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder of the whole repository.
///
/// # Panics
/// When there is none, like all functions here.
pub fn top() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::canonicalize(&top).unwrap_or_else(|error| panic!("{}: {error}", top.display()))
}

/// Reads a text.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// Lists every file below a folder, without what cargo and git keep there.
pub fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![below.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("list {}: {error}", next.display())) {
            let path = entry.expect("read a list").path();
            match path.file_name().and_then(|name| name.to_str()) {
                Some("target" | ".git") => {}
                _ if path.is_dir() => folders.push(path),
                _ => found.push(path),
            }
        }
    }
    found.sort();
    found
}
