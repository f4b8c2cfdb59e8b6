//! The command line of the administrator's tool, as data. From the one table of verbs follow how words are read, what
//! `--help` prints, the completion of shells and the manual page.

use std::process::ExitCode;

pub mod completion;
pub mod manual;
pub mod usage;

/// What the tool can do.
#[derive(Clone, Copy, Debug)]
pub struct VerbSpec {
    /// Its word.
    pub name: &'static str,
    /// One line, without a word that is a number: see `tool::help`.
    pub summary: &'static str,
    /// What it does, in lines of a page.
    pub about: &'static str,
    /// The words of which it needs one; none if empty.
    pub words: &'static [&'static str],
    /// Its options, beside `--help`.
    pub options: &'static [OptionSpec],
    /// What its exit statuses mean, beside those of [`FAILURE`] and [`USAGE`].
    pub statuses: &'static [(u8, &'static str)],
    pub run: Run,
}

/// What does the work of a verb.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    Work(fn(&Words) -> ExitCode),
    /// Prints what the verbs are.
    Page(fn(&Words, &[VerbSpec]) -> ExitCode),
}

/// An option of a verb.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// With its hyphens.
    pub name: &'static str,
    /// What comes behind it.
    pub value: ValueSpec,
    /// In lines, of which the second and later are aligned with the first.
    pub help: &'static str,
}

/// What comes behind an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSpec {
    /// Nothing.
    None,
    /// Some text; this is what the pages call it.
    Text(&'static str),
    /// The path of a folder.
    Folder(&'static str),
}

impl ValueSpec {
    /// What the pages call it.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Text(name) | Self::Folder(name) => Some(name),
        }
    }
}

impl OptionSpec {
    /// The option and what comes behind it.
    pub fn form(&self) -> String {
        self.value.name().map_or_else(|| self.name.to_owned(), |value| format!("{} {value}", self.name))
    }
}

/// The exit status of a failure.
pub const FAILURE: u8 = 1;
/// That of a wrong command line, as of most programs.
pub const USAGE: u8 = 2;
/// That of a verb that has found what it looks for.
pub const FOUND: u8 = 3;

/// What a user has typed behind a verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Options, each with its value; that of an option without one is empty.
    options: Vec<(&'static str, String)>,
    /// The word, where the verb needs one.
    word: Option<&'static str>,
}

/// A wrong command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// An option or word that the verb does not know.
    #[error("unknown argument {argument:?}")]
    Unknown {
        /// It.
        argument: String,
    },
    /// An option without what must come behind it.
    #[error("{option} needs a value")]
    NoValue {
        /// It.
        option: &'static str,
    },
    /// An option with two values.
    #[error("{option} is given more than once")]
    Twice {
        /// It.
        option: &'static str,
    },
    /// The verb without the word that it needs.
    #[error("one of these words is needed: {}", words.join(", "))]
    NoWord {
        /// The words.
        words: &'static [&'static str],
    },
}

impl Words {
    /// The value of an option, if it was given.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.options.iter().find(|(name, _)| *name == option).map(|(_, value)| value.as_str())
    }

    /// Whether an option was given.
    pub fn has(&self, option: &str) -> bool {
        self.value(option).is_some()
    }

    /// The word that the verb needs.
    pub const fn word(&self) -> Option<&'static str> {
        self.word
    }
}

/// Reads the words behind a verb; `None` when help is requested.
///
/// # Errors
/// [`UsageError`] names the first wrong word.
pub fn parse(verb: &VerbSpec, words: impl IntoIterator<Item = String>) -> Result<Option<Words>, UsageError> {
    let (mut words, mut read) = (words.into_iter(), Words::default());
    while let Some(word) = words.next() {
        if matches!(word.as_str(), "--help" | "-h") {
            return Ok(None);
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        match verb.options.iter().find(|option| option.name == name) {
            Some(OptionSpec { name, value: ValueSpec::None, .. }) if value.is_none() => {
                read.options.push((name, String::new()));
            }
            Some(OptionSpec { name, value: ValueSpec::Text(_) | ValueSpec::Folder(_), .. }) => {
                let value = value.or_else(|| words.next()).filter(|value| !value.is_empty());
                let value = value.ok_or(UsageError::NoValue { option: name })?;
                if read.has(name) {
                    return Err(UsageError::Twice { option: name });
                }
                read.options.push((name, value));
            }
            Some(_) | None => read.word = Some(take_word(verb, read.word, word)?),
        }
    }
    match (verb.words, read.word) {
        ([_, ..], None) => Err(UsageError::NoWord { words: verb.words }),
        ([], _) | ([_, ..], Some(_)) => Ok(Some(read)),
    }
}

fn take_word(verb: &VerbSpec, earlier: Option<&str>, word: String) -> Result<&'static str, UsageError> {
    let known = verb.words.iter().find(|known| **known == word && earlier.is_none());
    known.copied().ok_or(UsageError::Unknown { argument: word })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERB: VerbSpec = VerbSpec {
        name: "verb",
        summary: "",
        about: "",
        words: &[],
        options: &[
            OptionSpec { name: "--network", value: ValueSpec::Text("NAME"), help: "" },
            OptionSpec { name: "--cache-dir", value: ValueSpec::Folder("DIR"), help: "" },
            OptionSpec { name: "--dry-run", value: ValueSpec::None, help: "" },
        ],
        statuses: &[],
        run: Run::Work(|_| ExitCode::SUCCESS),
    };
    const WITH_WORD: VerbSpec = VerbSpec { words: &["one", "two"], ..VERB };

    fn read(verb: &VerbSpec, line: &str) -> Result<Option<Words>, String> {
        parse(verb, line.split_whitespace().map(str::to_owned)).map_err(|error| error.to_string())
    }

    #[test]
    fn options_come_in_any_order_with_or_without_an_equals_sign() {
        for line in ["--network nomad --cache-dir /c --dry-run", "--dry-run --cache-dir=/c --network=nomad"] {
            let words = read(&VERB, line).expect("right").expect("no help");
            assert_eq!((words.value("--network"), words.value("--cache-dir")), (Some("nomad"), Some("/c")), "{line}");
            assert!(words.has("--dry-run"), "{line}");
        }
        assert_eq!(read(&VERB, ""), Ok(Some(Words::default())));
        assert_eq!(read(&WITH_WORD, "--dry-run two").expect("right").and_then(|words| words.word()), Some("two"));
    }

    #[test]
    fn help_is_not_a_failure() {
        for line in ["--help", "-h", "--dry-run -h"] {
            assert_eq!(read(&VERB, line), Ok(None), "{line}");
            assert_eq!(read(&WITH_WORD, line), Ok(None), "{line}");
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
            assert_eq!(read(&VERB, line), Err(problem.to_owned()), "{line}");
        }
        for (line, problem) in [
            ("", "one of these words is needed: one, two"),
            ("three", "unknown argument \"three\""),
            ("one two", "unknown argument \"two\""),
        ] {
            assert_eq!(read(&WITH_WORD, line), Err(problem.to_owned()), "{line}");
        }
    }
}
