//! The positions of rules in their chains, at the moment of reading.

use std::collections::{BTreeMap, HashMap};

use super::backend::Iptables;
use super::error::IptablesError;
use super::rule::{IptablesRule, IptablesTable};
use super::seen::SeenChains;
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The places of the rules that were asked for.
pub(super) struct RulePlaces(HashMap<IptablesRule, Vec<usize>>);

impl RulePlaces {
    /// Looks rules up. A chain is read whole only where it is not known already.
    pub(super) fn find<'a>(
        tables: &mut dyn Iptables,
        family: Family,
        table: IptablesTable,
        rules: impl IntoIterator<Item = &'a IptablesRule>,
    ) -> Result<Self, IptablesError> {
        let mut chains: BTreeMap<&ChainName, Vec<&IptablesRule>> = BTreeMap::new();
        rules.into_iter().for_each(|rule| chains.entry(&rule.chain).or_default().push(rule));
        let mut found = HashMap::new();
        for (chain, rules) in chains {
            let places = match tables.places(family, table, chain, &rules) {
                Some(known) => known,
                None => {
                    let seen = SeenChains::observe(tables, family, table, [chain])?;
                    rules.iter().map(|rule| seen.places(rule)).collect()
                }
            };
            found.extend(rules.into_iter().map(IptablesRule::canonical).zip(places));
        }
        Ok(Self(found))
    }

    /// The number of copies of a rule.
    pub(super) fn copies(&self, rule: &IptablesRule) -> usize {
        self.of(rule).len()
    }

    /// Whether a rule precedes another one of its chain; true if either is missing.
    pub(super) fn is_above(&self, rule: &IptablesRule, other: &IptablesRule) -> bool {
        self.of(rule).first().zip(self.of(other).first()).is_none_or(|(rule, other)| rule < other)
    }

    fn of(&self, rule: &IptablesRule) -> &[usize] {
        self.0.get(&rule.canonical()).map(Vec::as_slice).unwrap_or_default()
    }
}
