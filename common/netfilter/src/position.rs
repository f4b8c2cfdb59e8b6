//! Where a container's own rules go among those of others.

use std::collections::BTreeSet;
use std::fmt;

/// Where rules are added to a chain that containers share. Rules that are there already stay where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RulePosition {
    /// Behind all others: the rules that were there first come first. This is the reference's.
    #[default]
    Back,
    /// Behind all others except the rules that jump to one of these chains, which are moved behind them in their order.
    Before(BTreeSet<String>),
}

impl RulePosition {
    /// The position in front of the rules that jump to some chains: [`RulePosition::Back`] if there is no such chain.
    pub fn before(chains: impl IntoIterator<Item = String>) -> Self {
        let chains: BTreeSet<String> = chains.into_iter().collect();
        if chains.is_empty() { Self::Back } else { Self::Before(chains) }
    }

    /// Whether a rule that jumps to a chain comes behind the container's.
    pub(crate) fn is_before(&self, chain: &str) -> bool {
        match self {
            Self::Back => false,
            Self::Before(chains) => chains.contains(chain),
        }
    }

    /// Of the rules of a chain in order, those that are to be moved behind all others. `is_own` and `is_later` tell the
    /// container's rules, and those that come behind them; `is_extended` whether more of its rules follow the last one.
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
