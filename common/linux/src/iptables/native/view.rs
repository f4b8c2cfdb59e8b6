//! The known rules of a chain while a batch is drafted: by their handles if possible, otherwise from a listing.

use std::collections::{HashMap, VecDeque};

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::IptablesRule;
use cni_netfilter::nftables::ChainId;

use super::chain::partly_numbered;
use crate::nftables::connection::NftConnection;
use crate::nftables::handles::{FEW, RuleHandles, text};
use cni_kernel::nftables::xt::read_rule;

/// The handles of the copies of each rule, in their order.
type Copies = HashMap<IptablesRule, VecDeque<u64>>;

/// A chain, read as little as possible.
pub(super) struct ChainView {
    family: Family,
    chain: ChainName,
    id: ChainId,
    /// The rules that the batch requires or deletes.
    wanted: Vec<IptablesRule>,
    /// Whether the chain belongs to one container: the batch makes it or empties it.
    is_own: bool,
    listed: Option<Copies>,
    asked: usize,
    /// The rules that the batch adds, with the number of the change.
    added: Vec<(usize, IptablesRule)>,
    deleted: Vec<(u64, IptablesRule)>,
}

impl ChainView {
    /// Describes a chain without reading it.
    pub(super) fn new(family: Family, chain: ChainName, id: ChainId, wanted: Vec<IptablesRule>, is_own: bool) -> Self {
        let (added, deleted) = (Vec::new(), Vec::new());
        Self { family, chain, id, wanted, is_own, listed: None, asked: 0, added, deleted }
    }

    /// The handle of the first copy of a rule that existed before the batch, and is not deleted by it.
    pub(super) fn first_copy(
        &mut self,
        connection: &mut NftConnection,
        rule: &IptablesRule,
    ) -> Result<Option<u64>, String> {
        if self.listed.is_none() {
            if let Some(handle) = self.remembered(connection, rule)? {
                return Ok(Some(handle));
            }
            self.listed = Some(self.list(connection)?);
        }
        let copies = self.listed.as_ref().and_then(|listed| listed.get(&rule.canonical()));
        Ok(copies.and_then(|copies| copies.iter().find(|copy| !self.is_deleted(**copy)).copied()))
    }

    /// The remembered handle of a rule, if the kernel still shows the rule.
    fn remembered(&mut self, connection: &mut NftConnection, rule: &IptablesRule) -> Result<Option<u64>, String> {
        self.asked += 1;
        let handle = connection.handles_without_index().and_then(|handles| handles.find(&self.id, &text(rule)));
        let Some(handle) = handle.filter(|handle| self.asked <= FEW && !self.is_deleted(*handle)) else {
            return Ok(None);
        };
        let found = connection.rule(&self.id, handle, |payload| read_rule(self.family, &self.chain, payload));
        let found = found.map_err(|cause| format!("chain {} cannot be read: {cause}", self.id))?;
        Ok(found.filter(|(_, found)| *found == rule.canonical()).map(|(handle, _)| handle))
    }

    fn list(&self, connection: &mut NftConnection) -> Result<Copies, String> {
        let wanted: Vec<&IptablesRule> = self.wanted.iter().collect();
        let listing = partly_numbered(connection, self.family, &self.id, &self.chain, &wanted)?;
        listing.remember(connection, &self.id, &wanted);
        let mut copies = Copies::new();
        for (_, (handle, rule)) in listing.rules {
            copies.entry(rule).or_default().push_back(handle);
        }
        Ok(copies)
    }

    fn is_deleted(&self, handle: u64) -> bool {
        self.deleted.iter().any(|(deleted, _)| *deleted == handle)
    }

    /// Records that a change of the batch adds a rule. Returns whether the kernel must report its handle.
    pub(super) fn add(&mut self, connection: &mut NftConnection, rule: &IptablesRule, change: usize) -> bool {
        let is_remembered = !self.is_own && connection.handles_without_index().is_some_and(RuleHandles::are_kept);
        if is_remembered {
            self.added.push((change, rule.clone()));
        }
        is_remembered
    }

    /// Records that the batch deletes a rule.
    pub(super) fn delete(&mut self, rule: &IptablesRule, handle: u64) {
        self.deleted.push((handle, rule.clone()));
    }

    /// Takes note of the batch, which was carried out, and gave these handles to the rules that it added.
    pub(super) fn committed(&self, connection: &mut NftConnection, made: impl Fn(usize) -> Option<u64>) {
        let handles = connection.handles();
        self.deleted.iter().for_each(|(_, rule)| handles.forget(&self.id, &text(rule)));
        let Some(handles) = connection.handles_without_index() else { return };
        for (change, rule) in &self.added {
            made(*change).into_iter().for_each(|handle| handles.keep(&self.id, &text(rule), handle));
        }
    }
}
