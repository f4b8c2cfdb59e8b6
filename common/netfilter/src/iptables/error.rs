//! Errors of reading and changing iptables.

use std::time::Duration;

use super::rule::IptablesTable;
use crate::phrases::without_swallowed_phrases;
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The message about a batch that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRefusal {
    /// The program that printed it.
    pub program: String,
    /// The words.
    pub text: String,
}

/// Errors of a batch.
#[derive(Debug)]
pub enum BatchError {
    /// The batch does not fit what exists, or is invalid.
    Refused(BatchRefusal),
    /// It could not be tried.
    Failed(IptablesError),
}

/// The packet filter could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum IptablesError {
    /// The program that changes the packet filter is not installed.
    #[error("failed to locate {program}: no such program in the directories of PATH")]
    NoProgram { program: String, path: String },
    /// The kernel does not have the table, as the program says.
    #[error("this kernel has no {family} table {table} for iptables")]
    NoTable { family: Family, table: IptablesTable, refusal: BatchRefusal },
    /// A program could not be run to its end.
    #[error("failed to run {program}")]
    Run {
        program: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A change was sent to the kernel, and its answer was lost.
    #[error("failed to find out whether the {family} rules of table {table} were changed")]
    Unanswered {
        family: Family,
        table: IptablesTable,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A program ran for too long, and was killed.
    #[error("{program} did not end within {limit:?}")]
    Stuck { program: String, limit: Duration },
    /// A program failed, and not because of what it was given.
    #[error("{program} failed, {status}")]
    Failed { program: String, status: String, text: String },
    /// A lock could not be taken.
    #[error("gave up after {waited:?}: the lock {lock} is held by {holder}")]
    Locked { lock: String, holder: String, waited: Duration },
    /// The file behind a lock could not be used.
    #[error("failed to lock {path}")]
    LockFile {
        /// The file, or a description of it.
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// Rules were refused again and again.
    #[error("the {family} rules of table {table} were refused")]
    Refused { family: Family, table: IptablesTable, refusal: BatchRefusal },
    /// A chain is empty now, and unreachable from where we put rules, but something else still leads to it.
    #[error("the {family} chain {chain} of table {table} is still in use")]
    InUse { family: Family, table: IptablesTable, chain: ChainName, refusal: BatchRefusal },
    /// It is not known whether a batch was carried out, and it could not be undone.
    #[error("{error}")]
    Unsettled {
        error: Box<IptablesError>,
        /// The error of the batch that should have undone it.
        undo: Box<IptablesError>,
    },
    /// The text of a rule contains a character that would end its line.
    #[error("a rule of the packet filter holds a line break: {line:?}")]
    Unprintable { line: String },
}

impl IptablesError {
    /// Whether the host has no iptables program for the family, or the kernel has no tables for it: then there are no rules.
    pub const fn is_absence(&self) -> bool {
        match self {
            Self::NoProgram { .. } | Self::NoTable { .. } => true,
            Self::Run { .. }
            | Self::Unanswered { .. }
            | Self::Stuck { .. }
            | Self::Failed { .. }
            | Self::Locked { .. }
            | Self::LockFile { .. }
            | Self::Refused { .. }
            | Self::InUse { .. }
            | Self::Unsettled { .. }
            | Self::Unprintable { .. } => false,
        }
    }
}

impl BatchRefusal {
    fn told(&self) -> String {
        format!("{}: {}", self.program, without_swallowed_phrases(&self.text))
    }
}

/// How plugins do without iptables.
const OTHER_BACKEND: &str = "\"backend\": \"nftables\" (bridge and ptp: \"ipMasqBackend\") does without iptables";

/// Adds what helps if a table of the same name that `nft` has made is in the way.
fn advised(text: String) -> String {
    let is_in_the_way = ["is incompatible", "CHAIN_ADD failed"].iter().any(|words| text.contains(words));
    if is_in_the_way { format!("{text}; {OTHER_BACKEND}") } else { text }
}

impl Failure for IptablesError {
    fn code(&self) -> Code {
        match self {
            Self::NoProgram { .. } | Self::NoTable { .. } | Self::Run { .. } | Self::Failed { .. } => Code::Program,
            Self::Stuck { .. } | Self::Locked { .. } => Code::TryAgain,
            Self::LockFile { .. } => Code::Io,
            Self::Refused { .. } | Self::InUse { .. } | Self::Unanswered { .. } => Code::Kernel,
            Self::Unprintable { .. } => Code::InvalidConfig,
            Self::Unsettled { error, .. } => error.code(),
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoProgram { path, .. } => format!("PATH={path}"),
            // Then there is no nf_tables either.
            Self::NoTable { refusal, .. } if refusal.text.contains("Failed to initialize nft") => refusal.told(),
            Self::NoTable { refusal, .. } => format!("{}; {OTHER_BACKEND}", refusal.told()),
            Self::Failed { text, .. } => advised(without_swallowed_phrases(text)),
            Self::Refused { refusal, .. } => advised(refusal.told()),
            Self::InUse { refusal, .. } => refusal.told(),
            Self::Run { source, .. } | Self::Unanswered { source, .. } => {
                without_swallowed_phrases(&source.to_string())
            }
            Self::LockFile { source, .. } => without_swallowed_phrases(&source.to_string()),
            Self::Unsettled { error, undo } => {
                format!("{}; its rules may stay, since {undo}: {}", error.details(), undo.details())
            }
            Self::Stuck { .. } | Self::Locked { .. } | Self::Unprintable { .. } => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_has_the_words_that_a_runtime_swallows() {
        let text = "host/network `x' not found\nCouldn't load target `X':No such file or directory\n".to_owned();
        let error = IptablesError::Refused {
            family: Family::V4,
            table: IptablesTable::Nat,
            refusal: BatchRefusal { program: "iptables-restore".to_owned(), text },
        };
        assert_eq!(error.to_string(), "the v4 rules of table nat were refused");
        assert_eq!(
            error.details(),
            "iptables-restore: host/network `x' missing Couldn't load target `X':No such thing"
        );
    }

    #[test]
    fn a_lost_answer_is_the_kernels_and_names_the_table() {
        let source = Box::new(std::io::Error::from_raw_os_error(11));
        let error = IptablesError::Unanswered { family: Family::V6, table: IptablesTable::Nat, source };
        assert_eq!(error.to_string(), "failed to find out whether the v6 rules of table nat were changed");
        assert_eq!(
            (error.code(), error.details().as_str()),
            (Code::Kernel, "Resource temporarily unavailable (os error 11)")
        );
    }

    #[test]
    fn nftables_is_advised_only_where_it_may_be_there() {
        for (text, is_advised) in [
            ("iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist", true),
            ("iptables-restore/1.8.9 (nf_tables) Failed to initialize nft: Protocol not supported", false),
        ] {
            let refusal = BatchRefusal { program: "iptables".to_owned(), text: text.to_owned() };
            let error = IptablesError::NoTable { family: Family::V4, table: IptablesTable::Nat, refusal };
            assert_eq!(error.details().contains(OTHER_BACKEND), is_advised, "{}", error.details());
        }
    }

    #[test]
    fn a_held_lock_is_a_reason_to_try_again() {
        let error = IptablesError::Locked {
            lock: "/run/xtables.lock".to_owned(),
            holder: "process 7 (x)".to_owned(),
            waited: Duration::from_secs(10),
        };
        assert_eq!(error.code(), Code::TryAgain);
        assert_eq!(error.to_string(), "gave up after 10s: the lock /run/xtables.lock is held by process 7 (x)");
    }
}
