//! A cached chain while a batch changes it.

use std::collections::HashMap;

use cni_netfilter::nftables::ChainId;

use super::chain::{CachedRule, SharedText};

/// The largest number of rules of a chain that the kernel is asked to report in one batch. A socket holds some hundreds
/// of its messages; further ones are lost, with the answer to the batch.
const FEW: usize = 64;

/// The cached rules of a chain, with the changes of a batch so far.
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
    text: SharedText,
}

/// The number of a rule, or which change of the batch makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    Known(u64),
    Made(usize),
}

/// The state of a chain after a batch.
#[derive(Debug)]
pub(crate) enum ChangedChain {
    /// It holds this now, and nothing else if it was known completely.
    Holds { rules: Vec<CachedRule>, complete: bool },
    /// It was deleted, or is unknown.
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

    /// The handle of the first copy of a rule that existed before the batch.
    pub(crate) fn first_copy(&self, text: &str) -> Option<u64> {
        self.rules.iter().find_map(|rule| match rule.handle {
            Handle::Known(handle) if *rule.text == *text => Some(handle),
            Handle::Known(_) | Handle::Made(_) => None,
        })
    }

    /// Records that a change of the batch adds a rule before or after all others. Returns whether the kernel must
    /// report its handle; a chain with too many of them is removed from the cache.
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

    /// The rules to cache after the batch, which gave these handles to the rules that it added; `None` if unchanged.
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
