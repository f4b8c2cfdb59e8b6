//! Cases: a script with files, as text that anyone can write. `conformance/cases/README.md` teaches the form.
//!
//! A case is a page in the form txtar: a comment, a script of one command a line, and files behind `-- name --`. The runner gives it a
//! private host ([`Sandbox`](crate::Sandbox)), carries out the script, and checks what holds for every case: CHECK passes and changes
//! nothing, and after DEL, called twice, the host and the containers are as they were, also if a system call of a plugin has failed or the
//! plugin was killed at it.

mod always;
mod beside;
mod command;
mod faults;
mod format;
mod known;
mod look;
mod losses;
pub mod requirement;
mod subject;
mod valid;
mod variant;
mod words;
mod world;

use std::fs;
use std::path::{Path, PathBuf};

pub use format::{Case, CaseError};
pub use subject::{PluginKind, Subject};
pub use variant::{Variant, variants};
pub use world::Failure;

/// All cases below a folder, by their paths without the ending.
///
/// # Panics
/// If a file cannot be read, or is no case: the message names the file and the line.
pub fn all(folder: &Path) -> Vec<Case> {
    let mut files = Vec::new();
    collect(folder, &mut files);
    files.sort();
    files.iter().map(|file| read(folder, file)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("list {}: {error}", folder.display())).path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "case") {
            files.push(path);
        }
    }
}

fn read(folder: &Path, file: &Path) -> Case {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("read {}: {error}", file.display()));
    let path = file.strip_prefix(folder).unwrap_or(file).with_extension("");
    let case = Case::parse(&path.display().to_string(), &text);
    case.unwrap_or_else(|error| panic!("{}: {error}", file.display())).with_example(|plugin| {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins").join(plugin).join("README.md");
        fs::read_to_string(&page).unwrap_or_else(|error| panic!("read {}: {error}", page.display()))
    })
}
