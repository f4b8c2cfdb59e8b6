//! The reference plugins, and their features.

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::binaries;

/// Debian's folder of plugins.
const DEBIAN: &str = "/usr/lib/cni";

/// The features of the reference in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Debian 12: v1.1.1, up to version 1.0.0 of the protocol.
    Old,
    /// v1.6.0 and later, with version 1.1.0 of the protocol.
    New,
}

/// A folder with plugins of the reference.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The folder.
    pub folder: PathBuf,
    /// The features.
    pub level: Level,
}

/// Finds the reference, or prints that a test compares nothing.
///
/// # Panics If a plugin there does not answer VERSION.
pub fn find(test: &str) -> Option<Reference> {
    let installed = || Path::new(DEBIAN).join("bridge").is_file().then(|| PathBuf::from(DEBIAN));
    let Some(folder) = binaries::reference().or_else(installed) else {
        say(&format!(
            "NOT COMPARED: {test}: there are no reference plugins; \
             install Debian's containernetworking-plugins or set CNI_REFERENCE_DIR"
        ));
        return None;
    };
    let level = level_of(&folder);
    Some(Reference { folder, level })
}

/// Says something past the test runner, which keeps the words of tests that pass to itself.
///
/// # Panics
/// When standard error is closed.
pub fn say(text: &str) {
    writeln!(stderr(), "{text}").expect("write to stderr");
}

/// Asks the plugin `bridge` of a folder what it can do.
///
/// # Panics
/// When it does not answer VERSION.
pub fn level_of(folder: &Path) -> Level {
    let mut command = Command::new(folder.join("bridge"));
    command.env_clear().env("CNI_COMMAND", "VERSION").stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("run bridge of {}: {error}", folder.display()));
    let versions: Value = serde_json::from_slice(&output.stdout).expect("the answer to VERSION is JSON");
    let versions = versions["supportedVersions"].as_array().expect("a list of versions");
    if versions.iter().any(|version| version == "1.1.0") { Level::New } else { Level::Old }
}
