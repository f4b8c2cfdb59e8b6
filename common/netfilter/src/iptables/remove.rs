//! Ensures that rules do not exist, and finds those of containers that no longer exist.
//!
//! The first attempt is one batch that deletes what is expected. The kernel does not delete a chain that a rule still
//! jumps to, so success proves that nothing is left. Otherwise the chains are read, and everything in them that
//! belongs to the attachment is removed, whatever it looks like.

use std::collections::HashSet;

use cni_core::family::Family;
use cni_core::names::{ChainName, Comment, NetworkName};
use cni_core::valid::ValidAttachments;

use super::change::{IptablesRemoval, JumpRemoval, OwnedChainRef};
use super::rule::{IptablesRule, IptablesTable, Match, Target};
use super::seen::SeenChains;
use super::transport::{Batch, BatchLine, Iptables};
use crate::error::{NetfilterError, retried};

/// How often a change is tried if other programs change the same chains in between.
pub(super) const ATTEMPTS: usize = 5;

/// Ensures that rules do not exist. Absence is success; rules of others stay.
///
/// # Errors
/// When other rules jump to an owned chain, which is then empty and otherwise unreachable. With
/// any other error nothing was changed.
pub fn remove(tables: &mut dyn Iptables, unwanted: &IptablesRemoval) -> Result<(), NetfilterError> {
    if is_provable(unwanted) {
        match tables.commit(&batch(unwanted, expected(unwanted))) {
            Err(error) if error.is_refusal() => {}
            done => return done,
        }
    }
    sweep(tables, unwanted)
}

/// Whether success of the batch proves that nothing is left, and absence of any part makes it fail.
fn is_provable(unwanted: &IptablesRemoval) -> bool {
    let alone = |jumps: &JumpRemoval| !matches!(jumps, JumpRemoval::AllBut(sources) if !sources.is_empty());
    let IptablesRemoval { chains, rules, .. } = unwanted;
    !rules.is_empty()
        && chains.iter().all(|chain| alone(&chain.jumps))
        && rules.iter().all(|rule| chains.iter().any(|chain| rule.jumps_to(&chain.name)))
}

fn batch(unwanted: &IptablesRemoval, ops: Vec<BatchLine>) -> Batch {
    Batch { family: unwanted.family, table: unwanted.table, ops }
}

fn expected(unwanted: &IptablesRemoval) -> Vec<BatchLine> {
    let rules = unwanted.rules.iter().cloned().map(BatchLine::Delete);
    rules.chain(discard(unwanted.chains.iter().map(|chain| &chain.name))).collect()
}

/// Empties chains and removes them. They may jump to each other, so all are emptied before the first is removed.
fn discard<'a>(chains: impl Iterator<Item = &'a ChainName> + Clone) -> impl Iterator<Item = BatchLine> {
    chains.clone().cloned().map(BatchLine::EmptyChain).chain(chains.cloned().map(BatchLine::DeleteChain))
}

fn sweep(tables: &mut dyn Iptables, unwanted: &IptablesRemoval) -> Result<(), NetfilterError> {
    retried(ATTEMPTS, |attempt| {
        let ops = if unwanted.chains.is_empty() {
            copies(tables, unwanted)?
        } else {
            present(unwanted, &observe(tables, unwanted)?)
        };
        if ops.is_empty() {
            return Ok(());
        }
        match tables.commit(&batch(unwanted, ops.clone())) {
            Err(error) if error.is_refusal() && attempt == ATTEMPTS => Err(unlink(tables, unwanted, ops, error)),
            done => done,
        }
    })
}

/// The lines that delete every copy of the unwanted rules, if no chain is removed.
fn copies(tables: &mut dyn Iptables, unwanted: &IptablesRemoval) -> Result<Vec<BatchLine>, NetfilterError> {
    let IptablesRemoval { family, table, rules, .. } = unwanted;
    let places = SeenChains::find(tables, *family, *table, rules)?;
    let mut listed = HashSet::new();
    let once = rules.iter().map(IptablesRule::canonical).filter(|rule| listed.insert(rule.clone()));
    Ok(once.flat_map(|rule| std::iter::repeat_n(BatchLine::Delete(rule.clone()), places.copies(&rule))).collect())
}

/// Reads the chains that are to go, and those with rules that may jump to them: nothing jumps to a chain that does not exist.
fn observe(tables: &mut dyn Iptables, unwanted: &IptablesRemoval) -> Result<SeenChains, NetfilterError> {
    let IptablesRemoval { family, table, chains, rules } = unwanted;
    let mut seen = SeenChains::observe(tables, *family, *table, chains.iter().map(|chain| &chain.name))?;
    let (present, missing): (Vec<_>, Vec<_>) = chains.iter().partition(|chain| seen.exists(&chain.name));
    let parents = present.iter().flat_map(|chain| &chain.parents);
    let is_possible = |rule: &&IptablesRule| !missing.iter().any(|chain| rule.jumps_to(&chain.name));
    let related = parents.chain(rules.iter().filter(is_possible).map(|rule| &rule.chain));
    seen.extend(SeenChains::observe(tables, *family, *table, related)?);
    Ok(seen)
}

/// The batch that removes everything unwanted that exists.
fn present(unwanted: &IptablesRemoval, seen: &SeenChains) -> Vec<BatchLine> {
    let listed: HashSet<IptablesRule> = unwanted.rules.iter().map(IptablesRule::canonical).collect();
    let goes = |rule: &IptablesRule| {
        listed.contains(rule)
            || unwanted.chains.iter().any(|chain| leads_to(rule, chain) && !is_kept(rule, &chain.jumps))
    };
    let mut ops: Vec<BatchLine> = seen.all_rules().filter(|rule| goes(rule)).cloned().map(BatchLine::Delete).collect();
    let in_use = |chain: &OwnedChainRef| seen.all_rules().any(|rule| leads_to(rule, chain) && !goes(rule));
    let gone = unwanted.chains.iter().filter(|chain| seen.exists(&chain.name) && !in_use(chain));
    ops.extend(discard(gone.map(|chain| &chain.name)));
    ops
}

fn leads_to(rule: &IptablesRule, chain: &OwnedChainRef) -> bool {
    rule.jumps_to(&chain.name) && chain.parents.contains(&rule.chain)
}

fn is_kept(rule: &IptablesRule, jumps: &JumpRemoval) -> bool {
    match jumps {
        JumpRemoval::All => false,
        JumpRemoval::AllBut(sources) => rule.source().is_some_and(|cidr| sources.contains(&cidr.address())),
        JumpRemoval::Listed => true,
    }
}

/// Removes the rules of a chain that cannot be removed, and the rules that jump to it, so that no packet enters it.
fn unlink(
    tables: &mut dyn Iptables,
    unwanted: &IptablesRemoval,
    mut ops: Vec<BatchLine>,
    refusal: NetfilterError,
) -> NetfilterError {
    let (family, table) = (unwanted.family, unwanted.table);
    let deleted =
        ops.iter().find_map(|op| if let BatchLine::DeleteChain(chain) = op { Some(chain.clone()) } else { None });
    ops.retain(|op| !matches!(op, BatchLine::DeleteChain(_)));
    match (tables.commit(&batch(unwanted, ops)), deleted) {
        (Ok(()), Some(chain)) => refusal.in_use(format_args!("{family} chain {chain} of table {table}")),
        (Err(error), _) if !error.is_refusal() => error,
        (Ok(()) | Err(_), _) => refusal,
    }
}

/// The beginning of the name of every container's own chain.
const OWNED: &str = "CNI-";

/// The removal of the containers' chains to which some of these rules jump, and of these rules: those whose comments
/// name an attachment of the network that is not valid. Returns `None` if no rule does.
///
/// The rules are those of one chain. A container's chain stays as long as a rule of another container jumps to it.
pub fn stale(
    family: Family,
    table: IptablesTable,
    rules: Vec<IptablesRule>,
    network: &NetworkName,
    valid: &ValidAttachments,
) -> Option<IptablesRemoval> {
    let kept: Vec<Comment> = valid.of_network(network).flat_map(|at| [at.comment(), at.dnat_comment()]).collect();
    let is_stale = |comment: &Comment| comment.is_of(network) && !kept.contains(comment);
    let mut chains: Vec<OwnedChainRef> = Vec::new();
    let mut stale = Vec::new();
    for rule in rules {
        let Some(name) = owned_chain(&rule).filter(|_| comment(&rule).is_some_and(is_stale)).cloned() else {
            continue;
        };
        if chains.iter().all(|chain| chain.name != name) {
            chains.push(OwnedChainRef { name, parents: vec![rule.chain.clone()], jumps: JumpRemoval::Listed });
        }
        stale.push(rule);
    }
    (!stale.is_empty()).then_some(IptablesRemoval { family, table, chains, rules: stale })
}

fn owned_chain(rule: &IptablesRule) -> Option<&ChainName> {
    if let Target::Jump(chain) = &rule.target {
        Some(chain).filter(|chain| chain.as_str().starts_with(OWNED))
    } else {
        None
    }
}

fn comment(rule: &IptablesRule) -> Option<&Comment> {
    rule.matches.iter().find_map(|part| if let Match::Comment(comment) = part { Some(comment) } else { None })
}
