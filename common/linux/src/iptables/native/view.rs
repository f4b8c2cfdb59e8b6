//! The known rules of a chain while a batch is drafted: from the cache if possible, otherwise from a listing.

use std::collections::{HashMap, VecDeque};

use cni_core::family::Family;
use cni_core::names::{ChainName, hash_hex};
use cni_netfilter::iptables::IptablesRule;
use cni_netfilter::nftables::{ChainId, Generation};

use super::chain::numbered;
use crate::nftables::cache::{CachedRule, ChangedChain, DraftedChain, LONG, TouchedChain};
use crate::nftables::connection::NftConnection;
use cni_kernel::nftables::xt::{NumberedRule, read_rule};

/// So many rules of a chain are asked for one by one. One listing answers for more of them in less time.
const FEW: usize = 64;

/// The handles of the rules that a chain had before the batch, without those that it deletes. Copies of a rule are in
/// their order.
type Handles = HashMap<IptablesRule, VecDeque<u64>>;

/// A chain, of which no more is read than needed.
pub(super) struct ChainView {
    family: Family,
    chain: ChainName,
    id: ChainId,
    /// What is cached of it, and is to be cached after the batch.
    cached: Option<DraftedChain>,
    listed: Option<Handles>,
    /// Whether what is in the cache has to go, since it is not known what it should be.
    forgotten: bool,
    asked: usize,
}

/// So many hexadecimal digits of a rule's SHA-512 stand for it in the cache: 128 bits.
const DIGITS: usize = 32;

/// The digest of a rule in the cache: the rules of 1000 containers are 300 KB of text, which each call would read and
/// write again.
pub(super) fn digest(rule: &IptablesRule) -> String {
    let mut digest = hash_hex(&rule.canonical().specification());
    digest.truncate(DIGITS);
    digest
}

impl ChainView {
    /// A chain of which only the cache is read.
    pub(super) fn new(
        connection: &mut NftConnection,
        now: Generation,
        family: Family,
        chain: ChainName,
        id: ChainId,
    ) -> Self {
        let cached = connection.cache().draft(&id, now);
        Self { family, chain, id, cached, listed: None, forgotten: false, asked: 0 }
    }

    /// The number of the first copy of a rule.
    pub(super) fn first_copy(
        &mut self,
        connection: &mut NftConnection,
        rule: &IptablesRule,
    ) -> Result<Option<u64>, String> {
        if self.listed.is_none() {
            if let Some(known) = self.cached_copy(connection, rule)? {
                return Ok(known);
            }
            self.list(connection)?;
        }
        let copies = self.listed.as_ref().and_then(|listed| listed.get(&rule.canonical()));
        Ok(copies.and_then(|copies| copies.front().copied()))
    }

    /// The handle of a copy of a rule from the cache. If the cache is not complete, the kernel must confirm it.
    fn cached_copy(
        &mut self,
        connection: &mut NftConnection,
        rule: &IptablesRule,
    ) -> Result<Option<Option<u64>>, String> {
        self.asked += 1;
        let Some(cached) = self.cached.as_ref().filter(|_| self.asked <= FEW) else { return Ok(None) };
        match cached.first_copy(&digest(rule)) {
            known if cached.is_complete() => Ok(Some(known)),
            None => Ok(None),
            Some(handle) => {
                let is_there = is_there(connection, (self.family, &self.id), handle, rule)?;
                Ok(is_there.then_some(Some(handle)))
            }
        }
    }

    /// Reads the whole chain. What the cache knew before is worth nothing if it has to be asked for.
    fn list(&mut self, connection: &mut NftConnection) -> Result<(), String> {
        let found = numbered(connection, self.family, &self.id, &self.chain)?.unwrap_or_default();
        // The listing does not show what the batch has added so far.
        self.forgotten = self.cached.as_ref().is_some_and(DraftedChain::is_changed);
        let is_long = found.len() > LONG && !self.forgotten;
        self.cached = is_long.then(|| DraftedChain::listed(as_cached(&found)));
        let mut handles = Handles::new();
        for (handle, rule) in found {
            handles.entry(rule).or_default().push_back(handle);
        }
        self.listed = Some(handles);
        Ok(())
    }

    /// Records that a change of the batch adds a rule before or after all others. Returns whether the kernel must
    /// report its handle.
    pub(super) fn add(&mut self, rule: &IptablesRule, change: usize, in_front: bool) -> bool {
        self.cached.as_mut().is_some_and(|cached| cached.add(digest(rule), change, in_front))
    }

    /// Takes note that the batch deletes a rule.
    pub(super) fn delete(&mut self, rule: &IptablesRule, handle: u64) {
        if let Some(copies) = self.listed.as_mut().and_then(|listed| listed.get_mut(&rule.canonical())) {
            copies.retain(|copy| *copy != handle);
        }
        if let Some(cached) = &mut self.cached {
            cached.delete(handle);
        }
    }

    /// Takes note that the batch deletes all rules.
    pub(super) fn clear(&mut self) {
        if let Some(cached) = &mut self.cached {
            cached.clear();
        }
    }

    /// The state of the chain after the batch, which gave these handles to the rules that it added.
    pub(super) fn into_touched(self, made: &HashMap<usize, u64>) -> TouchedChain {
        let changed = match self.cached {
            _ if self.forgotten => Some(ChangedChain::Forgotten),
            Some(cached) => cached.into_changed(made),
            None => None,
        };
        (self.id, changed)
    }
}

/// The rules of a listing as the cache has them.
pub(super) fn as_cached(rules: &[NumberedRule]) -> Vec<CachedRule> {
    rules.iter().map(|(handle, rule)| CachedRule { handle: *handle, text: digest(rule).into() }).collect()
}

/// Whether the kernel has a rule with a handle.
fn is_there(
    connection: &mut NftConnection,
    (family, id): (Family, &ChainId),
    handle: u64,
    rule: &IptablesRule,
) -> Result<bool, String> {
    let found = connection.rule(id, handle, |payload| read_rule(family, &rule.chain, payload));
    let found = found.map_err(|cause| format!("chain {id} cannot be read: {cause}"))?;
    Ok(found.is_some_and(|(_, found)| found == rule.canonical()))
}
