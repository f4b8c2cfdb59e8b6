//! What undoes a change that ensured rules.

use std::fmt;

/// The undo of a change that ensured rules. It first restores what the change has replaced, and then removes what the
/// change has added.
///
/// ADD may be called for an attachment that already has rules, and replace them. If it fails, the attachment keeps the
/// former rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacementUndo<W, R> {
    /// The rules that were replaced, as they were.
    pub replaced: Option<W>,
    /// The rules that were added, in place of none.
    pub added: Option<R>,
}

impl<W, R> ReplacementUndo<W, R> {
    /// Returns `None` where nothing was replaced and nothing added.
    pub(crate) fn new(replaced: Option<W>, added: Option<R>) -> Option<Self> {
        (replaced.is_some() || added.is_some()).then_some(Self { replaced, added })
    }
}

impl<W: fmt::Display, R: fmt::Display> fmt::Display for ReplacementUndo<W, R> {
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
