//! Ensures that rules do not exist: finds them, and deletes them in one transaction.
//!
//! When another program loads the tables again, handles start again at 1. So the transaction is bound to the generation
//! in which the handles were read; otherwise it could delete the rule of another container.

use std::collections::{BTreeMap, BTreeSet};

use super::backend::Nftables;
use super::change::{NftRemoval, RuleSelection, UnwantedNftRules};
use super::object::ChainId;
use super::seen::{ChainQueries, SeenObjects};
use super::transaction::{NftChange, Transaction};
use crate::error::{NetfilterError, retried};

/// How often a change is tried if other programs change the same chains in between.
pub(super) const ATTEMPTS: usize = 20;

/// Ensures that rules do not exist. Absence is success; rules of others stay.
///
/// # Errors
/// Then nothing was changed.
pub fn remove(nftables: &mut dyn Nftables, unwanted: &NftRemoval) -> Result<(), NetfilterError> {
    retried(ATTEMPTS, |attempt| {
        let generation = nftables.generation()?;
        let mut transaction = Transaction::from(deletion(nftables, unwanted)?);
        // Other programs that never pause do not keep the rules of a removed container.
        transaction.since = Some(generation).filter(|_| transaction.deletes_by_handle() && attempt < ATTEMPTS);
        if transaction.ops.is_empty() {
            return Ok(());
        }
        nftables.commit(&transaction)
    })
}

/// The changes that delete what exists. Rules that may jump to a chain are deleted before the chain.
fn deletion(nftables: &mut dyn Nftables, unwanted: &NftRemoval) -> Result<Vec<NftChange>, NetfilterError> {
    let NftRemoval { elements, rules, chains } = unwanted;
    let seen = SeenObjects::observe(nftables, &ChainQueries::default(), elements)?;
    let held = elements.iter().map(|elements| seen.divide(elements).0);
    let mut ops: Vec<NftChange> =
        held.filter(|held| !held.addresses.is_empty()).map(NftChange::DeleteElements).collect();
    let mut meant: BTreeMap<&ChainId, Vec<RuleSelection>> = chains.iter().map(|chain| (chain, Vec::new())).collect();
    for UnwantedNftRules { chain, which } in rules {
        meant.entry(chain).or_default().push(which.clone());
    }
    let mut there = BTreeSet::new();
    for (chain, meant) in meant {
        let Some(handles) = nftables.find_handles(chain, &meant)? else { continue };
        ops.extend(handles.into_iter().map(|handle| NftChange::DeleteRule(chain.clone(), handle)));
        there.insert(chain);
    }
    ops.extend(chains.iter().filter(|chain| there.contains(chain)).cloned().map(NftChange::DeleteChain));
    Ok(ops)
}
