//! The cached chains that a transaction changes.

use std::collections::{BTreeMap, HashMap};

use cni_netfilter::nftables::{ChainId, Generation, NftChange};

use super::cache::{ChainCache, DraftedChain, TouchedChain};
use super::line;

/// The chains to cache after a transaction on a generation.
pub(super) struct ChainDrafts {
    /// `None` where nothing is to be cached.
    since: Option<Generation>,
    chains: BTreeMap<ChainId, Option<DraftedChain>>,
}

impl ChainDrafts {
    pub(super) const fn new(since: Option<Generation>) -> Self {
        Self { since, chains: BTreeMap::new() }
    }

    /// Records a change, whose first message is `index`. Returns whether the kernel must report the handle of the rule
    /// that it adds.
    pub(super) fn take(&mut self, cache: &mut ChainCache, change: &NftChange, index: usize) -> bool {
        match change {
            NftChange::AddRule(rule) => {
                let drafted = self.chain(cache, &rule.chain);
                drafted.is_some_and(|drafted| drafted.add(line::of_rule(rule), index, false))
            }
            NftChange::DeleteRule(chain, handle) => {
                self.chain(cache, chain).into_iter().for_each(|drafted| drafted.delete(*handle));
                false
            }
            NftChange::FlushChain(chain) | NftChange::DeleteChain(chain) => {
                self.chain(cache, chain).into_iter().for_each(DraftedChain::clear);
                false
            }
            NftChange::AddTable(_) | NftChange::AddChain(_) => false,
            NftChange::AddSet(_) | NftChange::AddElements(_) | NftChange::DeleteElements(_) => false,
        }
    }

    /// Drops what is cached of chains with a change that the kernel did not take: it may be wrong.
    pub(super) fn forget(&self, cache: &mut ChainCache) {
        self.chains.iter().filter(|(_, drafted)| drafted.is_some()).for_each(|(id, _)| cache.forget(id));
    }

    fn chain(&mut self, cache: &mut ChainCache, chain: &ChainId) -> Option<&mut DraftedChain> {
        let draft = || self.since.and_then(|since| cache.draft(chain, since));
        self.chains.entry(chain.clone()).or_insert_with(draft).as_mut()
    }

    /// The state of the chains after the transaction; `made` has the handles of the rules that changes have added.
    pub(super) fn into_touched(self, made: &HashMap<usize, u64>) -> Vec<TouchedChain> {
        let touched = |(id, drafted): (ChainId, Option<DraftedChain>)| {
            (id, drafted.and_then(|drafted| drafted.into_changed(made)))
        };
        self.chains.into_iter().map(touched).collect()
    }
}
