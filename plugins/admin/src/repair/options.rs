//! What `repair` was asked for.

use std::path::PathBuf;

use crate::command_line::Words;

/// What to do with what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Apply,
    /// Say what it is.
    DryRun,
}

/// The options, as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The network to repair; all networks if `None`.
    pub network: Option<String>,
    /// The cache directory; libcni's default if `None`.
    pub cache_dir: Option<PathBuf>,
    /// What to do.
    pub mode: Mode,
}

impl Options {
    /// Takes them from the command line.
    pub fn of(words: &Words) -> Self {
        let mode = if words.has("--dry-run") { Mode::DryRun } else { Mode::Apply };
        let network = words.value("--network").map(str::to_owned);
        Self { network, cache_dir: words.value("--cache-dir").map(PathBuf::from), mode }
    }
}
