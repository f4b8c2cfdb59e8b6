//! The chains and sets that were read for one transaction, as they were at that moment.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::backend::Nftables;
use super::change::{RuleSelection, RuleTag};
use super::listed::ListedRule;
use super::object::{ChainId, TableId};
use super::set::{SetElements, SetId};
use crate::error::NetfilterError;

/// How much of some chains is read: those of their rules that are meant and whether the chain exists, or all of it.
#[derive(Default)]
pub(super) struct ChainQueries<'a>(BTreeMap<&'a ChainId, Option<Vec<RuleSelection>>>);

impl<'a> ChainQueries<'a> {
    /// Asks for all rules of a chain.
    pub(super) fn whole(&mut self, chain: &'a ChainId) {
        self.0.insert(chain, None);
    }

    /// Asks for some rules of a chain, and whether it exists.
    pub(super) fn these(&mut self, chain: &'a ChainId, meant: impl IntoIterator<Item = RuleSelection>) {
        if let Some(asked) = self.0.entry(chain).or_insert_with(|| Some(Vec::new())) {
            asked.extend(meant);
        }
    }
}

/// The chains, and the elements of sets, that were asked for.
#[derive(Default)]
pub(super) struct SeenObjects {
    /// `None` for a chain that does not exist.
    chains: BTreeMap<ChainId, Option<Vec<ListedRule>>>,
    /// `None` for a set that does not exist.
    sets: Vec<(SetId, Option<Vec<IpAddr>>)>,
}

impl SeenObjects {
    /// Reads chains, as far as requested, and looks up elements.
    pub(super) fn observe(
        nftables: &mut dyn Nftables,
        chains: &ChainQueries<'_>,
        elements: &[SetElements],
    ) -> Result<Self, NetfilterError> {
        let mut seen = Self::default();
        seen.read(nftables, chains)?;
        seen.look_up(nftables, elements)?;
        Ok(seen)
    }

    /// Reads chains, as far as requested.
    pub(super) fn read(
        &mut self,
        nftables: &mut dyn Nftables,
        chains: &ChainQueries<'_>,
    ) -> Result<(), NetfilterError> {
        for (chain, question) in &chains.0 {
            let rules = match question {
                None => nftables.list(chain)?,
                Some(meant) => nftables.find(chain, meant)?,
            };
            self.chains.insert((*chain).clone(), rules);
        }
        Ok(())
    }

    /// Looks up elements.
    pub(super) fn look_up(
        &mut self,
        nftables: &mut dyn Nftables,
        elements: &[SetElements],
    ) -> Result<(), NetfilterError> {
        for wanted in elements {
            self.sets.push((wanted.set.clone(), nftables.held(wanted)?));
        }
        Ok(())
    }

    /// Whether rules with a tag in a chain would jump to a chain that does not exist.
    pub(super) fn is_absent_target(&self, tag: &RuleTag, chain: &ChainId) -> bool {
        let RuleTag::LeadsTo(name) = tag else { return false };
        self.chains.get(&chain.table.chain_named(name.clone())).is_some_and(Option::is_none)
    }

    pub(super) fn exists(&self, chain: &ChainId) -> bool {
        self.chains.get(chain).is_some_and(Option::is_some)
    }

    /// Whether one of its chains proves that a table exists.
    pub(super) fn has_table(&self, table: &TableId) -> bool {
        self.chains.iter().any(|(chain, rules)| chain.table == *table && rules.is_some())
    }

    /// Whether a set exists: one of its elements was found, or the set was read.
    pub(super) fn has_set(&self, set: &SetId) -> bool {
        self.sets.iter().any(|(seen, held)| seen == set && held.is_some())
    }

    /// The rules of a chain that were asked for, none when it does not exist.
    pub(super) fn rules(&self, chain: &ChainId) -> &[ListedRule] {
        self.chains.get(chain).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Those of some elements that exist, and those that do not.
    pub(super) fn divide(&self, wanted: &SetElements) -> (SetElements, SetElements) {
        let held = self.sets.iter().filter(|(set, _)| *set == wanted.set).filter_map(|(_, held)| held.as_ref());
        let held: BTreeSet<&IpAddr> = held.flatten().collect();
        let (there, absent) = wanted.addresses.iter().copied().partition(|address| held.contains(address));
        let of = |addresses| SetElements { set: wanted.set.clone(), addresses };
        (of(there), of(absent))
    }
}
