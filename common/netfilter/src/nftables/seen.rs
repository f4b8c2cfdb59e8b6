//! What was read of some chains and sets: facts for one transaction, true at the moment of reading only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::backend::{ListedRule, Nftables};
use super::error::NftablesError;
use super::object::{ChainId, TableId};
use super::set::{SetElements, SetId};

/// The chains, and the elements of sets, that were asked for.
#[derive(Default)]
pub(super) struct SeenObjects {
    /// `None` for a chain that does not exist.
    chains: BTreeMap<ChainId, Option<Vec<ListedRule>>>,
    /// `None` for a set that does not exist.
    sets: Vec<(SetId, Option<Vec<IpAddr>>)>,
}

impl SeenObjects {
    /// Reads chains, each once, and looks for elements.
    pub(super) fn observe<'a>(
        nftables: &mut dyn Nftables,
        chains: impl IntoIterator<Item = &'a ChainId>,
        elements: &[SetElements],
    ) -> Result<Self, NftablesError> {
        let mut seen = Self::default();
        for chain in chains {
            if !seen.chains.contains_key(chain) {
                seen.chains.insert(chain.clone(), nftables.list(chain)?);
            }
        }
        for wanted in elements {
            seen.sets.push((wanted.set.clone(), nftables.held(wanted)?));
        }
        Ok(seen)
    }

    pub(super) fn exists(&self, chain: &ChainId) -> bool {
        self.chains.get(chain).is_some_and(Option::is_some)
    }

    /// Whether one of its chains proves that a table is there.
    pub(super) fn has_table(&self, table: &TableId) -> bool {
        self.chains.iter().any(|(chain, rules)| chain.table == *table && rules.is_some())
    }

    /// Whether one of its elements was looked for with success, or its set was there to look into.
    pub(super) fn has_set(&self, set: &SetId) -> bool {
        self.sets.iter().any(|(seen, held)| seen == set && held.is_some())
    }

    /// The rules of a chain, none when it does not exist.
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
