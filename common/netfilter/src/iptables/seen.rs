//! The chains that were read for a repair, as they were at that moment.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::backend::Iptables;
use super::place::RulePlaces;
use super::rule::{IptablesRule, IptablesTable};
use crate::error::NetfilterError;
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The chains that were asked for; `None` for one that does not exist.
pub(super) struct SeenChains(BTreeMap<ChainName, Option<SeenChain>>);

/// The rules of a chain in order, with the number of copies of each, for fast look-up.
struct SeenChain {
    rules: Vec<Rc<IptablesRule>>,
    copies: HashMap<Rc<IptablesRule>, usize>,
}

impl SeenChain {
    fn new(rules: Vec<IptablesRule>) -> Self {
        let rules: Vec<Rc<IptablesRule>> = rules.into_iter().map(Rc::new).collect();
        let mut copies = HashMap::new();
        for rule in &rules {
            *copies.entry(Rc::clone(rule)).or_insert(0) += 1;
        }
        Self { rules, copies }
    }
}

impl SeenChains {
    /// Reads chains.
    pub(super) fn observe<'a>(
        iptables: &mut dyn Iptables,
        family: Family,
        table: IptablesTable,
        chains: impl IntoIterator<Item = &'a ChainName>,
    ) -> Result<Self, NetfilterError> {
        let mut seen = BTreeMap::new();
        for chain in chains {
            if !seen.contains_key(chain) {
                seen.insert(chain.clone(), iptables.list(family, table, chain)?.map(SeenChain::new));
            }
        }
        Ok(Self(seen))
    }

    /// Adds the chains that others were read of.
    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    pub(super) fn exists(&self, chain: &ChainName) -> bool {
        self.chain(chain).is_some()
    }

    /// Every rule that was read.
    pub(super) fn all_rules(&self) -> impl Iterator<Item = &IptablesRule> {
        self.0.values().flatten().flat_map(|chain| &chain.rules).map(Rc::as_ref)
    }

    /// The rules of a chain in order, none where it does not exist.
    pub(super) fn rules(&self, chain: &ChainName) -> impl Iterator<Item = &IptablesRule> {
        self.chain(chain).into_iter().flat_map(|chain| &chain.rules).map(Rc::as_ref)
    }

    /// The number of copies of a rule.
    pub(super) fn copies(&self, rule: &IptablesRule) -> usize {
        let copies = self.chain(&rule.chain).and_then(|chain| chain.copies.get(&rule.canonical()));
        copies.copied().unwrap_or_default()
    }

    /// Whether this is the first rule of its chain.
    pub(super) fn is_first(&self, rule: &IptablesRule) -> bool {
        let first = self.chain(&rule.chain).and_then(|chain| chain.rules.first());
        first.is_some_and(|first| **first == rule.canonical())
    }

    /// The positions of the copies of a rule, counted from 0.
    pub(super) fn places(&self, rule: &IptablesRule) -> Vec<usize> {
        if self.copies(rule) == 0 {
            return Vec::new();
        }
        let (rules, rule) = (self.chain(&rule.chain).map(|chain| &chain.rules), rule.canonical());
        rules.into_iter().flatten().enumerate().filter(|(_, one)| ***one == rule).map(|(place, _)| place).collect()
    }

    /// Whether a rule precedes another one of its chain; true if either is missing.
    pub(super) fn is_above(&self, rule: &IptablesRule, other: &IptablesRule) -> bool {
        let place = |rule| self.places(rule).first().copied();
        place(rule).zip(place(other)).is_none_or(|(rule, other)| rule < other)
    }

    /// Whether this is the last rule of its chain.
    pub(super) fn is_last(&self, rule: &IptablesRule) -> bool {
        let last = self.chain(&rule.chain).and_then(|chain| chain.rules.last());
        last.is_some_and(|last| **last == rule.canonical())
    }

    fn chain(&self, chain: &ChainName) -> Option<&SeenChain> {
        self.0.get(chain).and_then(Option::as_ref)
    }
}

/// Finds the positions of rules in their chains, and reads as little of each chain as possible.
pub(super) fn find_places<'a>(
    tables: &mut dyn Iptables,
    family: Family,
    table: IptablesTable,
    rules: impl IntoIterator<Item = &'a IptablesRule>,
) -> Result<RulePlaces, NetfilterError> {
    let mut chains: BTreeMap<&ChainName, Vec<&IptablesRule>> = BTreeMap::new();
    rules.into_iter().for_each(|rule| chains.entry(&rule.chain).or_default().push(rule));
    let mut found = RulePlaces::default();
    for (chain, rules) in chains {
        found.extend(tables.places(family, table, chain, &rules)?);
    }
    Ok(found)
}
