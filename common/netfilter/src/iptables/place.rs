//! Where some rules are in their chains: true at the moment of reading only.

use std::collections::{BTreeMap, HashMap};

use super::backend::Iptables;
use super::error::IptablesError;
use super::rule::{IptablesRule, IptablesTable};
use super::seen::SeenChains;
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The places of the rules that were asked for.
pub(super) struct Places(HashMap<IptablesRule, Vec<usize>>);

impl Places {
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

    /// How many copies of a rule there are.
    pub(super) fn copies(&self, rule: &IptablesRule) -> usize {
        self.of(rule).len()
    }

    /// Whether a rule comes before another one of its chain; also where there is not either of them.
    pub(super) fn is_above(&self, rule: &IptablesRule, other: &IptablesRule) -> bool {
        self.of(rule).first().zip(self.of(other).first()).is_none_or(|(rule, other)| rule < other)
    }

    fn of(&self, rule: &IptablesRule) -> &[usize] {
        self.0.get(&rule.canonical()).map(Vec::as_slice).unwrap_or_default()
    }
}
