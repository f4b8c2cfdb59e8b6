//! The position of a container's own rules among other rules, and what undoes a change of rules.

use std::collections::BTreeSet;
use std::fmt;

/// The position of new rules in a chain that containers share. Existing rules are not moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RulePosition {
    /// After all others, so older rules match first. This is the reference's position.
    #[default]
    Back,
    /// Behind all others except the rules that jump to one of these chains, which are moved behind them in their order.
    Before(BTreeSet<String>),
}

impl RulePosition {
    /// The position before the rules that jump to some chains; [`RulePosition::Back`] if there is no such chain.
    pub fn before(chains: impl IntoIterator<Item = String>) -> Self {
        let chains: BTreeSet<String> = chains.into_iter().collect();
        if chains.is_empty() { Self::Back } else { Self::Before(chains) }
    }

    /// Whether a rule that jumps to a chain must come after the container's.
    pub(crate) fn is_before(&self, chain: &str) -> bool {
        match self {
            Self::Back => false,
            Self::Before(chains) => chains.contains(chain),
        }
    }

    /// The rules of a chain that must be moved to the end. `is_own` selects the container's rules, `is_later` the rules
    /// that come after them; `is_extended` says whether more of the container's rules follow the last one.
    pub(crate) fn moved<T>(
        found: &[T],
        is_extended: bool,
        is_own: impl Fn(&T) -> bool,
        is_later: impl Fn(&T) -> bool,
    ) -> Vec<&T> {
        let last = if is_extended { Some(found.len()) } else { found.iter().rposition(is_own) };
        match last {
            // All behind the first that is moved are moved as well, so that their order stays.
            Some(last) if found[..last].iter().any(&is_later) => found.iter().filter(|rule| is_later(rule)).collect(),
            Some(_) | None => Vec::new(),
        }
    }
}

impl fmt::Display for RulePosition {
    /// Nothing for the usual one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Back => Ok(()),
            Self::Before(chains) => {
                let chains: Vec<&str> = chains.iter().map(String::as_str).collect();
                write!(f, "before {} ", chains.join(","))
            }
        }
    }
}

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
