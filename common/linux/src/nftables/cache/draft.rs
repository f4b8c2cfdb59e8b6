//! A cached chain while a batch changes it.

use std::collections::HashMap;

use cni_netfilter::nftables::ChainId;

use super::chain::{CachedRule, Piece};

/// Of so many rules of a chain the kernel is asked to tell in one batch. A socket holds some hundreds of its messages, and
/// what it does not hold is lost with the answer to the batch.
const FEW: usize = 64;

/// What is cached of a chain, with the changes of a batch so far.
#[derive(Debug)]
pub(crate) struct DraftedChain {
    rules: Vec<DraftedRule>,
    /// How many rules the batch adds.
    added: usize,
    /// Whether the chain holds no other rules.
    complete: bool,
    changed: bool,
}

#[derive(Debug)]
struct DraftedRule {
    handle: Handle,
    text: Piece,
}

/// The number of a rule, or which change of the batch makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    Known(u64),
    Made(usize),
}

/// What became of a chain in a batch.
#[derive(Debug)]
pub(crate) enum ChangedChain {
    /// It holds this now, and nothing else if it was known completely.
    Holds { rules: Vec<CachedRule>, complete: bool },
    /// It is gone, or unknown.
    Forgotten,
}

/// A chain, and what became of it if it was cached.
pub(crate) type TouchedChain = (ChainId, Option<ChangedChain>);

impl DraftedChain {
    pub(super) fn new(rules: impl IntoIterator<Item = CachedRule>, complete: bool) -> Self {
        let drafted = |CachedRule { handle, text }| DraftedRule { handle: Handle::Known(handle), text };
        Self { rules: rules.into_iter().map(drafted).collect(), added: 0, complete, changed: false }
    }

    /// A chain that was read whole, which the cache is to learn of in any case.
    pub(crate) fn listed(rules: Vec<CachedRule>) -> Self {
        Self { changed: true, ..Self::new(rules, true) }
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.complete
    }

    pub(crate) const fn is_changed(&self) -> bool {
        self.changed
    }

    /// The number of the first copy of a rule that was there before the batch.
    pub(crate) fn first_copy(&self, text: &str) -> Option<u64> {
        self.rules.iter().find_map(|rule| match rule.handle {
            Handle::Known(handle) if *rule.text == *text => Some(handle),
            Handle::Known(_) | Handle::Made(_) => None,
        })
    }

    /// A change of the batch puts a rule in front of all others, or behind them. Returns whether the kernel has to tell of it;
    /// a chain with too many of them is forgotten.
    pub(crate) fn add(&mut self, text: String, change: usize, in_front: bool) -> bool {
        let at = if in_front { 0 } else { self.rules.len() };
        self.rules.insert(at, DraftedRule { handle: Handle::Made(change), text: text.into() });
        self.changed = true;
        self.added += 1;
        self.added <= FEW
    }

    /// The batch deletes a rule.
    pub(crate) fn delete(&mut self, handle: u64) {
        self.rules.retain(|rule| rule.handle != Handle::Known(handle));
        self.changed = true;
    }

    /// The batch deletes all rules.
    pub(crate) fn clear(&mut self) {
        self.rules.clear();
        self.changed = true;
    }

    /// What is to be cached after the batch, which gave these numbers to the rules that its changes made; `None` for as it
    /// was.
    pub(crate) fn into_changed(self, made: &HashMap<usize, u64>) -> Option<ChangedChain> {
        let Self { rules, added: _, complete, changed } = self;
        let rule = |DraftedRule { handle, text }| {
            let handle = match handle {
                Handle::Known(handle) => handle,
                Handle::Made(change) => *made.get(&change)?,
            };
            Some(CachedRule { handle, text })
        };
        let rules: Option<Vec<CachedRule>> = rules.into_iter().map(rule).collect();
        changed.then(|| rules.map_or(ChangedChain::Forgotten, |rules| ChangedChain::Holds { rules, complete }))
    }
}
