//! The error of reading or changing the packet filter.

use std::fmt;
use std::time::Duration;

use cni_core::error::{Code, Failure};
use cni_core::family::Family;

/// What callers decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetfilterErrorKind {
    /// There is no iptables program for the family.
    NoProgram,
    /// The kernel does not have the table, as the program says.
    NoTable,
    /// The kernel has no nf_tables, or none for this family of tables.
    Unsupported,
    /// The process may not use nf_tables.
    NotPermitted,
    /// A change does not fit what exists: someone may have changed that in the meantime.
    Refused,
    /// A program did not come to a known end, or the answer to a change was lost: the change may have been made.
    Unanswered,
    /// A program failed, and not because of what it was given.
    Failed,
    /// Another process holds a lock.
    Locked,
    /// Any other failure.
    Other,
}

/// The packet filter could not be read or changed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct NetfilterError {
    pub kind: NetfilterErrorKind,
    code: Code,
    text: String,
    details: String,
}

/// How plugins do without iptables.
const OTHER_BACKEND: &str = "\"backend\": \"nftables\" (bridge and ptp: \"ipMasqBackend\") does without iptables";

/// Adds to the words of iptables what helps if a table of the same name that `nft` has made is in the way, or the kernel has no
/// extension of iptables, such as one without `nft_compat`.
pub fn advised(text: &str) -> String {
    let is_in_the_way =
        ["is incompatible", "CHAIN_ADD failed", "missing kernel module"].iter().any(|words| text.contains(words));
    if is_in_the_way { format!("{}; {OTHER_BACKEND}", text.trim_end()) } else { text.to_owned() }
}

impl NetfilterError {
    /// An error of its parts, without phrases that a runtime swallows.
    pub fn new(kind: NetfilterErrorKind, code: Code, text: String, details: impl fmt::Display) -> Self {
        Self { kind, code, text, details: without_swallowed_phrases(&details.to_string()) }
    }

    /// Nothing was changed, because of what a program said about a batch.
    pub fn refused(family: Family, table: impl fmt::Display, program: &str, words: &str) -> Self {
        let text = format!("the {family} rules of table {table} were refused");
        Self::new(NetfilterErrorKind::Refused, Code::Kernel, text, advised(&format!("{program}: {words}")))
    }

    /// The kernel does not have a table, as a program says.
    pub fn no_table(family: Family, table: impl fmt::Display, program: &str, words: &str) -> Self {
        let text = format!("this kernel has no {family} table {table} for iptables");
        let mut details = format!("{program}: {}", words.trim_end());
        // Otherwise there is no nf_tables either.
        if !words.contains("Failed to initialize nft") {
            details = format!("{details}; {OTHER_BACKEND}");
        }
        Self::new(NetfilterErrorKind::NoTable, Code::Program, text, details)
    }

    /// A program failed with a status, and these words.
    pub fn program(kind: NetfilterErrorKind, program: &str, status: &str, words: &str) -> Self {
        Self::new(kind, Code::Program, format!("{program} failed, {status}"), words)
    }

    /// A lock could not be taken.
    pub fn locked(lock: impl fmt::Display, holder: impl fmt::Display, waited: Duration) -> Self {
        let text = format!("gave up after {waited:?}: the lock {lock} is held by {holder}");
        Self::new(NetfilterErrorKind::Locked, Code::TryAgain, text, "")
    }

    /// Whether there are certainly no rules: no programs for the family, no table in the kernel, or no usable nf_tables.
    pub const fn is_absence(&self) -> bool {
        use NetfilterErrorKind::{NoProgram, NoTable, NotPermitted, Unsupported};
        matches!(self.kind, NoProgram | NoTable | NotPermitted | Unsupported)
    }

    /// Whether a change does not fit what exists.
    pub const fn is_refusal(&self) -> bool {
        matches!(self.kind, NetfilterErrorKind::Refused)
    }

    /// The refusal to delete a chain that is empty now, and unreachable from where we put rules.
    pub(crate) fn in_use(self, what: fmt::Arguments<'_>) -> Self {
        Self { kind: NetfilterErrorKind::Other, text: format!("the {what} is still in use"), ..self }
    }

    /// The change that should have undone what may have been made has failed as well.
    pub(crate) fn unsettled(self, undo: &Self) -> Self {
        Self { details: format!("{}; its rules may stay, since {undo}: {}", self.details, undo.details), ..self }
    }
}

/// Makes a change. One that does not fit any more, because others have changed something in between, is planned again,
/// up to a number of attempts.
pub(crate) fn retried<T>(
    attempts: usize,
    mut change: impl FnMut(usize) -> Result<T, NetfilterError>,
) -> Result<T, NetfilterError> {
    let mut attempt = 1;
    loop {
        match change(attempt) {
            Err(error) if error.is_refusal() && attempt < attempts => attempt += 1,
            done => return done,
        }
    }
}

impl Failure for NetfilterError {
    fn code(&self) -> Code {
        self.code
    }

    fn details(&self) -> String {
        self.details.clone()
    }
}

/// A program's words on one line, without those that make go-cni take a failed DEL for a success.
pub fn without_swallowed_phrases(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("not found", "missing").replace("o such file or directory", "o such thing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_has_the_words_that_a_runtime_swallows() {
        let text = "host/network `x' not found\nCouldn't load target `X':No such file or directory\n";
        let error = NetfilterError::refused(Family::V4, "nat", "iptables-restore", text);
        assert_eq!(error.to_string(), "the v4 rules of table nat were refused");
        assert_eq!(
            error.details(),
            "iptables-restore: host/network `x' missing Couldn't load target `X':No such thing"
        );
    }

    #[test]
    fn nftables_is_advised_only_where_it_may_be_there() {
        for (text, is_advised) in [
            ("iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist", true),
            ("iptables-restore/1.8.9 (nf_tables) Failed to initialize nft: Protocol not supported", false),
        ] {
            let error = NetfilterError::no_table(Family::V4, "nat", "iptables", text);
            assert_eq!(error.details().contains(OTHER_BACKEND), is_advised, "{}", error.details());
        }
        let words =
            "Warning: Extension MASQUERADE revision 0 not supported, missing kernel module?\nRULE_APPEND failed";
        let error = NetfilterError::refused(Family::V4, "nat", "iptables-restore", words);
        assert!(error.details().ends_with(OTHER_BACKEND), "{}", error.details());
    }

    #[test]
    fn a_held_lock_is_a_reason_to_try_again() {
        let error = NetfilterError::locked("/run/xtables.lock", "process 7 (x)", Duration::from_secs(10));
        assert_eq!(error.code(), Code::TryAgain);
        assert_eq!(error.to_string(), "gave up after 10s: the lock /run/xtables.lock is held by process 7 (x)");
    }
}
