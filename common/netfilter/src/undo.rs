//! Undoes the changes that ensured rules.

use std::fmt;

use crate::backend::Netfilter;
use crate::error::NetfilterError;
use crate::ruleset::{RuleRemoval, Ruleset};

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

impl<W: Into<Ruleset>, R: Into<RuleRemoval>> ReplacementUndo<W, R> {
    /// The same for either back end. What was added was made in this one.
    pub(crate) fn into_rules(self) -> RuleUndo {
        let added = self.added.map(|added| added.into().known());
        RuleUndo { replaced: self.replaced.map(Into::into), added }
    }
}

/// The undo of a change of rules.
pub type RuleUndo = ReplacementUndo<Ruleset, RuleRemoval>;

impl RuleUndo {
    /// Restores what was replaced, and removes what was added. Absence of that is success.
    ///
    /// # Errors
    /// The first failure; both are tried.
    pub fn carry_out(&self, netfilter: &mut dyn Netfilter) -> Result<(), NetfilterError> {
        let restored = self.replaced.as_ref().map_or(Ok(()), |replaced| replaced.ensure(netfilter).map(|_| ()));
        let removed = self.added.as_ref().map_or(Ok(()), |added| added.remove(netfilter));
        restored.and(removed)
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
