//! What was read of some chains: facts for a repair, true at the moment of reading only.

use std::collections::BTreeMap;

use super::rule::{Rule, Table};
use super::tables::{FilterError, Tables};
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The chains that were asked for; `None` for one that is not there.
pub(super) struct Seen(BTreeMap<ChainName, Option<Vec<Rule>>>);

impl Seen {
    /// Reads chains, each once.
    pub(super) fn observe<'a>(
        tables: &mut dyn Tables,
        family: Family,
        table: Table,
        chains: impl IntoIterator<Item = &'a ChainName>,
    ) -> Result<Self, FilterError> {
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
    pub(super) fn rules(&self, chain: &ChainName) -> &[Rule] {
        self.0.get(chain).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Every rule that was read.
    pub(super) fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        self.0.values().flatten().flatten()
    }

    /// How many copies of a rule there are.
    pub(super) fn copies(&self, rule: &Rule) -> usize {
        let wanted = rule.canonical();
        self.rules(&rule.chain).iter().filter(|have| **have == wanted).count()
    }

    /// Whether the first rule of its chain is this one.
    pub(super) fn is_first(&self, rule: &Rule) -> bool {
        self.rules(&rule.chain).first() == Some(&rule.canonical())
    }
}
