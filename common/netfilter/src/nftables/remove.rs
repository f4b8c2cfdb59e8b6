//! Makes rules be gone: looks for them, and deletes in one transaction what was found.

use super::ATTEMPTS;
use super::backend::{CommitError, Nftables, NftablesError};
use super::change::Remove;
use super::seen::Seen;
use super::transaction::{Op, Transaction};

/// Makes rules be gone. Absence is success; what belongs to others stays.
///
/// # Errors
/// Then nothing was changed.
pub fn remove(nftables: &mut dyn Nftables, unwanted: &Remove) -> Result<(), NftablesError> {
    let mut attempt = 1;
    loop {
        let chains = unwanted.rules.iter().map(|rules| &rules.chain).chain(&unwanted.chains);
        let transaction = deletion(unwanted, &Seen::observe(nftables, chains, &unwanted.elements)?);
        if transaction.ops.is_empty() {
            return Ok(());
        }
        match nftables.commit(&transaction) {
            Ok(()) => return Ok(()),
            Err(CommitError::Refused(_)) if attempt < ATTEMPTS => attempt += 1,
            Err(CommitError::Refused(error) | CommitError::Failed(error)) => return Err(error),
        }
    }
}

/// Rules that may lead to a chain go before the chain.
fn deletion(unwanted: &Remove, seen: &Seen) -> Transaction {
    let held = unwanted.elements.iter().map(|elements| seen.divide(elements).0);
    let mut ops: Vec<Op> = held.filter(|held| !held.elements.is_empty()).map(Op::DeleteElements).collect();
    for rules in &unwanted.rules {
        let found = seen.rules(&rules.chain).iter().filter(|rule| rules.which.means(rule));
        ops.extend(found.map(|rule| Op::DeleteRule(rules.chain.clone(), rule.handle)));
    }
    let chains = unwanted.chains.iter().filter(|chain| seen.exists(chain));
    ops.extend(chains.cloned().map(Op::DeleteChain));
    Transaction::from(ops)
}

#[cfg(test)]
mod tests;
