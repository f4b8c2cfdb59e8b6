//! Where a container's own rules go among those of others.

use std::fmt;

use crate::nftables::{NftChange, NftRule};

/// Which end of a shared chain gets a container's rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RulePosition {
    /// Behind all others: what others have comes first. This is the reference's.
    #[default]
    Back,
    /// In front of all others, in their own order.
    Front,
}

impl RulePosition {
    /// Rules in the order in which they are added one by one.
    pub(crate) fn in_order_of_adding<'a, T>(self, rules: &'a [T]) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let last = rules.len().saturating_sub(1);
        (0..rules.len()).map(move |at| match self {
            Self::Back => &rules[at],
            Self::Front => &rules[last - at],
        })
    }

    /// The changes that add rules of nf_tables.
    pub(crate) fn additions(self, rules: &[NftRule]) -> impl Iterator<Item = NftChange> {
        self.in_order_of_adding(rules).cloned().map(match self {
            Self::Back => NftChange::AddRule,
            Self::Front => NftChange::InsertRule,
        })
    }
}

impl fmt::Display for RulePosition {
    /// Nothing for the usual one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Back => Ok(()),
            Self::Front => f.write_str("first "),
        }
    }
}
