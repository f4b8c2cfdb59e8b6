//! What was read of some chains: facts for a repair, true at the moment of reading only.

use std::collections::BTreeMap;

use super::backend::Iptables;
use super::error::IptablesError;
use super::rule::{IptablesRule, IptablesTable};
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The chains that were asked for; `None` for one that is not there.
pub(super) struct SeenChains(BTreeMap<ChainName, Option<Vec<IptablesRule>>>);

impl SeenChains {
    /// Reads chains, each once.
    pub(super) fn observe<'a>(
        tables: &mut dyn Iptables,
        family: Family,
        table: IptablesTable,
        chains: impl IntoIterator<Item = &'a ChainName>,
    ) -> Result<Self, IptablesError> {
        let mut seen = BTreeMap::new();
        for chain in chains {
            if !seen.contains_key(chain) {
                seen.insert(chain.clone(), tables.list(family, table, chain)?);
            }
        }
        Ok(Self(seen))
    }

    pub(super) fn exists(&self, chain: &ChainName) -> bool {
        self.0.get(chain).is_some_and(Option::is_some)
    }

    /// The rules of a chain, none when it is not there.
    pub(super) fn rules(&self, chain: &ChainName) -> &[IptablesRule] {
        self.0.get(chain).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Every rule that was read.
    pub(super) fn all_rules(&self) -> impl Iterator<Item = &IptablesRule> {
        self.0.values().flatten().flatten()
    }

    /// How many copies of a rule there are.
    pub(super) fn copies(&self, rule: &IptablesRule) -> usize {
        let wanted = rule.canonical();
        self.rules(&rule.chain).iter().filter(|have| **have == wanted).count()
    }

    /// Whether the first rule of its chain is this one.
    pub(super) fn is_first(&self, rule: &IptablesRule) -> bool {
        self.rules(&rule.chain).first() == Some(&rule.canonical())
    }
}
