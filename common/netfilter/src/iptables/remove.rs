//! Makes rules be gone.
//!
//! The first try is one batch that deletes what is expected: a table refuses to delete a chain that
//! anything still leads to, so success proves that nothing is left. Otherwise the chains in question are
//! read, and what is ours in them goes, whatever it looks like.

use super::ATTEMPTS;
use super::batch::{Batch, Op};
use super::change::{Jumps, OwnedChainRef, Remove};
use super::rule::Rule;
use super::seen::Seen;
use super::tables::{CommitError, FilterError, Refusal, Tables};
use cni_core::names::ChainName;

/// Makes rules be gone. Absence is success; what belongs to others stays.
///
/// # Errors
/// [`FilterError::InUse`] when foreign rules lead to an owned chain, which is then empty and otherwise
/// unreachable. With any other error nothing was changed.
pub fn remove(tables: &mut dyn Tables, unwanted: &Remove) -> Result<(), FilterError> {
    if is_provable(unwanted) {
        match tables.commit(&batch(unwanted, expected(unwanted))) {
            Ok(()) => return Ok(()),
            Err(CommitError::Failed(error)) => return Err(error),
            Err(CommitError::Refused(_)) => {}
        }
    }
    sweep(tables, unwanted)
}

/// Whether a batch that succeeds leaves nothing behind, and one for something absent does not succeed.
fn is_provable(unwanted: &Remove) -> bool {
    let alone = |jumps: &Jumps| match jumps {
        Jumps::All | Jumps::Listed => true,
        Jumps::AllBut(sources) => sources.is_empty(),
    };
    let Remove { chains, rules, .. } = unwanted;
    !rules.is_empty()
        && chains.iter().all(|chain| alone(&chain.jumps))
        && rules.iter().all(|rule| chains.iter().any(|chain| rule.jumps_to(&chain.name)))
}

fn batch(unwanted: &Remove, ops: Vec<Op>) -> Batch {
    Batch { family: unwanted.family, table: unwanted.table, ops }
}

fn expected(unwanted: &Remove) -> Vec<Op> {
    let rules = unwanted.rules.iter().cloned().map(Op::Delete);
    rules.chain(unwanted.chains.iter().flat_map(|chain| discard(&chain.name))).collect()
}

/// Empties a chain and removes it.
fn discard(chain: &ChainName) -> [Op; 2] {
    [Op::EmptyChain(chain.clone()), Op::DeleteChain(chain.clone())]
}

fn sweep(tables: &mut dyn Tables, unwanted: &Remove) -> Result<(), FilterError> {
    let mut attempt = 1;
    loop {
        let seen = observe(tables, unwanted)?;
        let ops = present(unwanted, &seen);
        if ops.is_empty() {
            return Ok(());
        }
        match tables.commit(&batch(unwanted, ops.clone())) {
            Ok(()) => return Ok(()),
            Err(CommitError::Refused(_)) if attempt < ATTEMPTS => attempt += 1,
            Err(CommitError::Refused(refusal)) => return Err(unlink(tables, unwanted, ops, refusal)),
            Err(CommitError::Failed(error)) => return Err(error),
        }
    }
}

fn observe(tables: &mut dyn Tables, unwanted: &Remove) -> Result<Seen, FilterError> {
    let Remove { family, table, chains, rules } = unwanted;
    let related = chains.iter().flat_map(|chain| chain.parents.iter().chain([&chain.name]));
    Seen::observe(tables, *family, *table, related.chain(rules.iter().map(|rule| &rule.chain)))
}

/// What takes away all that is there of what is unwanted.
fn present(unwanted: &Remove, seen: &Seen) -> Vec<Op> {
    let listed: Vec<Rule> = unwanted.rules.iter().map(Rule::canonical).collect();
    let goes = |rule: &Rule| {
        listed.contains(rule)
            || unwanted.chains.iter().any(|chain| leads_to(rule, chain) && !is_kept(rule, &chain.jumps))
    };
    let mut ops: Vec<Op> = seen.all_rules().filter(|rule| goes(rule)).cloned().map(Op::Delete).collect();
    for chain in &unwanted.chains {
        let in_use = seen.all_rules().any(|rule| leads_to(rule, chain) && !goes(rule));
        if seen.exists(&chain.name) && !in_use {
            ops.extend(discard(&chain.name));
        }
    }
    ops
}

fn leads_to(rule: &Rule, chain: &OwnedChainRef) -> bool {
    rule.jumps_to(&chain.name) && chain.parents.contains(&rule.chain)
}

fn is_kept(rule: &Rule, jumps: &Jumps) -> bool {
    match jumps {
        Jumps::All => false,
        Jumps::AllBut(sources) => rule.source().is_some_and(|cidr| sources.contains(&cidr.address())),
        Jumps::Listed => true,
    }
}

/// Where a chain cannot go, at least its rules and those that lead to it do, so that it catches no packet.
fn unlink(tables: &mut dyn Tables, unwanted: &Remove, mut ops: Vec<Op>, refusal: Refusal) -> FilterError {
    let (family, table) = (unwanted.family, unwanted.table);
    let deleted = ops.iter().find_map(|op| if let Op::DeleteChain(chain) = op { Some(chain.clone()) } else { None });
    ops.retain(|op| !matches!(op, Op::DeleteChain(_)));
    match (tables.commit(&batch(unwanted, ops)), deleted) {
        (Ok(()), Some(chain)) => FilterError::InUse { family, table, chain, refusal },
        (Ok(()) | Err(CommitError::Refused(_)), _) => FilterError::Refused { family, table, refusal },
        (Err(CommitError::Failed(error)), _) => error,
    }
}

#[cfg(test)]
mod tests;
