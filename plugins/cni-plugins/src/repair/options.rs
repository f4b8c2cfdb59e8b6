//! The command line of `repair`.

use std::path::PathBuf;

/// How it is called, below its name.
pub const USAGE: &str = "\
usage: cni-plugins repair [--network NAME] [--cache-dir DIR] [--dry-run]

Puts back the packet filter rules of containers that somebody has flushed: those that the plugins bridge,
firewall and portmap have made, of every attachment in the result cache of libcni whose container still runs.
It touches no link, address or lease, and changes nothing where nothing is missing.

  --network NAME   just the attachments to this network
  --cache-dir DIR  the runtime's cache directory, which has a folder results; /var/lib/cni unless given
  --dry-run        just say what is missing

It prints a line for each attachment, and fails when one of them could not be repaired.
";

/// What to do with what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Put it back.
    Apply,
    /// Tell it.
    DryRun,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The only network, if there is to be one.
    pub network: Option<String>,
    /// The cache directory, if not the usual one.
    pub cache_dir: Option<PathBuf>,
    /// What to do.
    pub mode: Mode,
}

/// A command line that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// There is no such option.
    #[error("unknown argument {argument:?}")]
    Unknown {
        /// As given.
        argument: String,
    },
    /// An option wants a value.
    #[error("{option} wants a value")]
    NoValue {
        /// The option.
        option: &'static str,
    },
    /// An option was given again.
    #[error("{option} stands there twice")]
    Twice {
        /// The option.
        option: &'static str,
    },
}

impl Options {
    /// Reads the words behind the verb; `None` when help is asked for.
    ///
    /// # Errors
    /// [`UsageError`] names the first word that does not fit.
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
    fn help_is_no_failure() {
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
            ("--network", "--network wants a value"),
            ("--network=", "--network wants a value"),
            ("--cache-dir", "--cache-dir wants a value"),
            ("--network a --network b", "--network stands there twice"),
        ] {
            assert_eq!(parse(line), Err(problem.to_owned()), "{line}");
        }
    }
}
