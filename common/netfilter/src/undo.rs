//! What takes back a change that made sure of rules.

use std::fmt;

/// What takes back a change that made sure of rules. It first restores what the change has replaced, and then removes what
/// the change has added.
///
/// An ADD may come for an attachment that has its rules already, and replace them. When it fails, the attachment lives on
/// with the rules of before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo<W, R> {
    /// The rules that were replaced, as they were.
    pub replaced: Option<W>,
    /// The rules that were added, in place of none.
    pub added: Option<R>,
}

impl<W, R> Undo<W, R> {
    /// Returns `None` where nothing was replaced and nothing added.
    pub(crate) fn new(replaced: Option<W>, added: Option<R>) -> Option<Self> {
        (replaced.is_some() || added.is_some()).then_some(Self { replaced, added })
    }
}

impl<W: fmt::Display, R: fmt::Display> fmt::Display for Undo<W, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replaced, added } = self;
        if let Some(replaced) = replaced {
            replaced.fmt(f)?;
        }
        if let (Some(_), Some(_)) = (replaced, added) {
            f.write_str("\n")?;
        }
        added.as_ref().map_or(Ok(()), |added| added.fmt(f))
    }
}
