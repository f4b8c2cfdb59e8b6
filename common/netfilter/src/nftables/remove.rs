//! Makes sure that rules are gone: looks for them, and deletes in one transaction what was found.

use super::ATTEMPTS;
use super::backend::Nftables;
use super::change::{MeantRules, NftRemoval};
use super::error::{NftablesError, TransactionError};
use super::listed::ListedRule;
use super::seen::{Questions, SeenObjects};
use super::transaction::{NftChange, Transaction};

/// Makes sure that rules are gone. Absence is success; what belongs to others stays.
///
/// # Errors
/// Then nothing was changed.
pub fn remove(nftables: &mut dyn Nftables, unwanted: &NftRemoval) -> Result<(), NftablesError> {
    let mut attempt = 1;
    loop {
        let mut chains = Questions::default();
        unwanted.rules.iter().for_each(|rules| chains.these(&rules.chain, [rules.which.clone()]));
        unwanted.chains.iter().for_each(|chain| chains.these(chain, []));
        let transaction = deletion(unwanted, &SeenObjects::observe(nftables, &chains, &unwanted.elements)?);
        if transaction.ops.is_empty() {
            return Ok(());
        }
        match nftables.commit(&transaction) {
            Ok(()) => return Ok(()),
            Err(TransactionError::Refused(_)) if attempt < ATTEMPTS => attempt += 1,
            Err(TransactionError::Refused(error) | TransactionError::Failed(error)) => return Err(error),
        }
    }
}

/// Rules that may lead to a chain go before the chain.
fn deletion(unwanted: &NftRemoval, seen: &SeenObjects) -> Transaction {
    let held = unwanted.elements.iter().map(|elements| seen.divide(elements).0);
    let mut ops: Vec<NftChange> =
        held.filter(|held| !held.addresses.is_empty()).map(NftChange::DeleteElements).collect();
    for rules in &unwanted.rules {
        let meant = MeantRules::new([&rules.which]);
        let is_meant = |rule: &&ListedRule| meant.hold(rules.chain.table.family, rule);
        let found = seen.rules(&rules.chain).iter().filter(is_meant);
        ops.extend(found.map(|rule| NftChange::DeleteRule(rules.chain.clone(), rule.handle)));
    }
    let chains = unwanted.chains.iter().filter(|chain| seen.exists(chain));
    ops.extend(chains.cloned().map(NftChange::DeleteChain));
    Transaction::from(ops)
}
