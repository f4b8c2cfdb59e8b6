//! What was read of some chains: facts for one transaction, true at the moment of reading only.

use std::collections::BTreeMap;

use super::backend::{Listed, Nftables, NftablesError};
use super::object::{ChainId, TableId};

/// The chains that were asked for; `None` for one that is not there.
pub(super) struct Seen(BTreeMap<ChainId, Option<Vec<Listed>>>);

impl Seen {
    /// Reads chains, each once.
    pub(super) fn observe<'a>(
        nftables: &mut dyn Nftables,
        chains: impl IntoIterator<Item = &'a ChainId>,
    ) -> Result<Self, NftablesError> {
        let mut seen = BTreeMap::new();
        for chain in chains {
            if !seen.contains_key(chain) {
                seen.insert(chain.clone(), nftables.list(chain)?);
            }
        }
        Ok(Self(seen))
    }

    pub(super) fn exists(&self, chain: &ChainId) -> bool {
        self.0.get(chain).is_some_and(Option::is_some)
    }

    /// Whether one of its chains proves that a table is there.
    pub(super) fn has_table(&self, table: &TableId) -> bool {
        self.0.iter().any(|(chain, rules)| chain.table == *table && rules.is_some())
    }

    /// The rules of a chain, none when it is not there.
    pub(super) fn rules(&self, chain: &ChainId) -> &[Listed] {
        self.0.get(chain).and_then(Option::as_deref).unwrap_or_default()
    }
}
