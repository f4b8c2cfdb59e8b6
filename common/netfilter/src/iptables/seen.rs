//! The chains that were read for a change, as they were at that moment.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::rule::{IptablesRule, IptablesTable};
use super::transport::Iptables;
use crate::error::NetfilterError;
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The chains that were asked for; `None` for one that does not exist.
#[derive(Default)]
pub(super) struct SeenChains(BTreeMap<ChainName, Option<SeenChain>>);

/// The rules of a chain in order, with the positions of the copies of each, counted from 0.
#[derive(Default)]
struct SeenChain {
    rules: Vec<Rc<IptablesRule>>,
    places: HashMap<Rc<IptablesRule>, Vec<usize>>,
}

impl SeenChain {
    fn new(listed: impl IntoIterator<Item = (usize, IptablesRule)>) -> Self {
        let mut chain = Self::default();
        for (place, rule) in listed {
            let rule = Rc::new(rule);
            chain.places.entry(Rc::clone(&rule)).or_default().push(place);
            chain.rules.push(rule);
        }
        chain
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
                let listed = iptables.list(family, table, chain)?;
                seen.insert(chain.clone(), listed.map(|rules| SeenChain::new(rules.into_iter().enumerate())));
            }
        }
        Ok(Self(seen))
    }

    /// Finds rules in their chains, and reads as little of each chain as possible: only the copies of these rules are known
    /// then, and only `copies` and `is_above` mean anything.
    pub(super) fn find<'a>(
        tables: &mut dyn Iptables,
        family: Family,
        table: IptablesTable,
        rules: impl IntoIterator<Item = &'a IptablesRule>,
    ) -> Result<Self, NetfilterError> {
        let mut chains: BTreeMap<&ChainName, Vec<&IptablesRule>> = BTreeMap::new();
        rules.into_iter().for_each(|rule| chains.entry(&rule.chain).or_default().push(rule));
        let mut seen = Self::default();
        for (chain, rules) in chains {
            let found = tables.find(family, table, chain, &rules)?;
            seen.0.insert(chain.clone(), Some(SeenChain::new(found)));
        }
        Ok(seen)
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
        self.places(rule).len()
    }

    /// Whether this is the first rule of its chain.
    pub(super) fn is_first(&self, rule: &IptablesRule) -> bool {
        self.places(rule).first() == Some(&0)
    }

    /// Whether a rule precedes another one of its chain; true if either is missing.
    pub(super) fn is_above(&self, rule: &IptablesRule, other: &IptablesRule) -> bool {
        self.places(rule).first().zip(self.places(other).first()).is_none_or(|(rule, other)| rule < other)
    }

    /// Whether this is the last rule of its chain.
    pub(super) fn is_last(&self, rule: &IptablesRule) -> bool {
        let last = self.chain(&rule.chain).and_then(|chain| chain.rules.last());
        last.is_some_and(|last| **last == rule.canonical())
    }

    fn places(&self, rule: &IptablesRule) -> &[usize] {
        let places = self.chain(&rule.chain).and_then(|chain| chain.places.get(&rule.canonical()));
        places.map(Vec::as_slice).unwrap_or_default()
    }

    fn chain(&self, chain: &ChainName) -> Option<&SeenChain> {
        self.0.get(chain).and_then(Option::as_ref)
    }
}
