//! The command line of `repair`.

use std::path::PathBuf;

/// What `--help` prints.
pub const USAGE: &str = "\
usage: cni-plugins repair [--network NAME] [--cache-dir DIR] [--dry-run]

Puts back packet filter rules of running containers that somebody has flushed: the rules that the plugins
bridge, firewall and portmap have made, for every attachment in libcni's result cache. It touches no link,
address or lease, and changes nothing where nothing is missing.

  --network NAME   only attachments to this network
  --cache-dir DIR  the runtime's cache directory, which contains a folder \"results\"; default /var/lib/cni
  --dry-run        say what is missing, and change nothing

It prints a line for each attachment, and fails when one of them could not be repaired.
";

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

/// A wrong command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    #[error("unknown argument {argument:?}")]
    Unknown { argument: String },
    #[error("{option} needs a value")]
    NoValue { option: &'static str },
    #[error("{option} is given more than once")]
    Twice { option: &'static str },
}

impl Options {
    /// Reads the words after the verb; `None` when help is requested.
    ///
    /// # Errors
    /// [`UsageError`] names the first wrong word.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Option<Self>, UsageError> {
        let mut words = words.into_iter();
        let (mut network, mut cache_dir, mut mode) = (None, None, Mode::Apply);
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            match (name, &value) {
                ("--network", _) => set(&mut network, "--network", value.or_else(|| words.next()))?,
                ("--cache-dir", _) => set(&mut cache_dir, "--cache-dir", value.or_else(|| words.next()))?,
                ("--dry-run", None) => mode = Mode::DryRun,
                ("--help" | "-h", None) => return Ok(None),
                _ => return Err(UsageError::Unknown { argument: word }),
            }
        }
        Ok(Some(Self { network, cache_dir: cache_dir.map(PathBuf::from), mode }))
    }
}

fn set(slot: &mut Option<String>, option: &'static str, value: Option<String>) -> Result<(), UsageError> {
    let value = value.filter(|value| !value.is_empty()).ok_or(UsageError::NoValue { option })?;
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(UsageError::Twice { option }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, String> {
        Options::parse(line.split_whitespace().map(str::to_owned)).map_err(|error| error.to_string())
    }

    #[test]
    fn options_come_in_any_order_with_or_without_an_equals_sign() {
        let all =
            Options { network: Some("nomad".to_owned()), cache_dir: Some(PathBuf::from("/c")), mode: Mode::DryRun };
        for line in ["--network nomad --cache-dir /c --dry-run", "--dry-run --cache-dir=/c --network=nomad"] {
            assert_eq!(parse(line), Ok(Some(all.clone())), "{line}");
        }
        assert_eq!(parse(""), Ok(Some(Options { network: None, cache_dir: None, mode: Mode::Apply })));
    }

    #[test]
    fn help_is_not_a_failure() {
        for line in ["--help", "-h", "--dry-run -h"] {
            assert_eq!(parse(line), Ok(None), "{line}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (line, problem) in [
            ("nomad", "unknown argument \"nomad\""),
            ("--net x", "unknown argument \"--net\""),
            ("--dry-run=yes", "unknown argument \"--dry-run=yes\""),
            ("--network", "--network needs a value"),
            ("--network=", "--network needs a value"),
            ("--cache-dir", "--cache-dir needs a value"),
            ("--network a --network b", "--network is given more than once"),
        ] {
            assert_eq!(parse(line), Err(problem.to_owned()), "{line}");
        }
    }
}
