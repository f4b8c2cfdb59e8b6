//! The outcome for one attachment, in one line.

use std::fmt;

use cni_core::error::Error;
use cni_plugin::missing::MissingPart;

use crate::cache::Cached;
use crate::output::{error_line, joined};

/// Something that was missing, and the plugin that makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPart {
    pub plugin: String,
    /// The first missing rule.
    pub missing: String,
}

/// The outcome for an attachment.
#[derive(Debug)]
pub enum RepairOutcome {
    /// Nothing is missing.
    Complete,
    /// Nothing is missing of what is known; these plugins are others'.
    Unknown(Vec<String>),
    /// These are missing.
    Missing(Vec<NamedPart>),
    /// These were missing and have been put back.
    Repaired(Vec<NamedPart>),
    /// The container's namespace is gone; this says what is there instead.
    Gone(String),
    /// The attachment cannot be repaired, for this reason.
    Skipped(String),
    /// The failures, and the outcome of the rest.
    Failed(Vec<Error>, Box<RepairOutcome>),
}

impl NamedPart {
    pub fn new(plugin: &str, part: &MissingPart) -> Self {
        Self { plugin: plugin.to_owned(), missing: part.missing.clone() }
    }
}

impl From<Error> for RepairOutcome {
    fn from(error: Error) -> Self {
        Self::Failed(vec![error], Box::new(Self::Complete))
    }
}

/// The failures, together with what succeeded, if anything.
pub fn with_failures(
    failures: Vec<Error>,
    named: Vec<NamedPart>,
    outcome: fn(Vec<NamedPart>) -> RepairOutcome,
) -> RepairOutcome {
    let rest = if named.is_empty() { RepairOutcome::Complete } else { outcome(named) };
    if failures.is_empty() { rest } else { RepairOutcome::Failed(failures, Box::new(rest)) }
}

impl RepairOutcome {
    /// The outcome for an attachment that lacks nothing that these plugins know.
    pub fn of_known(cached: &Cached) -> Self {
        let others: Vec<String> = cached.plugins_of_others().map(str::to_owned).collect();
        if others.is_empty() { Self::Complete } else { Self::Unknown(others) }
    }

    /// Whether anything failed.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(..))
    }
}

impl fmt::Display for RepairOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |named: &[NamedPart]| named.iter().map(NamedPart::to_string).collect::<Vec<_>>().join("; ");
        match self {
            Self::Complete => f.write_str("nothing missing"),
            Self::Unknown(others) => write!(f, "unknown: not one of these plugins: {}", others.join(", ")),
            Self::Missing(named) => write!(f, "missing: {}", list(named)),
            Self::Repaired(named) => write!(f, "repaired: {}", list(named)),
            Self::Gone(reason) | Self::Skipped(reason) => write!(f, "skipped: {}", joined(reason)),
            Self::Failed(errors, rest) => {
                let errors: Vec<String> = errors.iter().map(error_line).collect();
                write!(f, "failed: {}", errors.join("; "))?;
                if matches!(**rest, Self::Complete) { Ok(()) } else { write!(f, "; {rest}") }
            }
        }
    }
}

impl fmt::Display for NamedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.plugin, joined(&self.missing))
    }
}

#[cfg(test)]
mod tests {
    use cni_core::fail;

    use super::*;

    #[test]
    fn an_outcome_is_one_line() {
        let broken = || fail!(Program, "iptables-restore failed\nBad argument\n");
        let named = |plugin: &str| NamedPart { plugin: plugin.to_owned(), missing: "nft a\nb".to_owned() };
        for (outcome, line, failure) in [
            (RepairOutcome::Repaired(vec![named("a"), named("b")]), "repaired: a: nft a / b; b: nft a / b", false),
            (
                RepairOutcome::Failed(
                    vec![broken(), broken().with_note("n".to_owned())],
                    Box::new(RepairOutcome::Repaired(vec![named("a")])),
                ),
                "failed: iptables-restore failed / Bad argument; iptables-restore failed / Bad argument / : n; \
                 repaired: a: nft a / b",
                true,
            ),
        ] {
            assert_eq!((outcome.to_string().as_str(), outcome.is_failure()), (line, failure));
        }
    }
}
