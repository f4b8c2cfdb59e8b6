//! Ensures that rules exist.
//!
//! The first attempt is one batch with its own conditions: the shared rules must exist, and the owned chains must be
//! new, which also proves that nothing jumps to them. If the batch is refused, the chains are read under the lock, and
//! one batch repairs what is shared and adds what is owned. A process that has waited for the lock tries the first
//! batch again, since another one may have made what was missing. Programs that do not know the lock may still change
//! something in between; then the chains are read again.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use cni_core::names::ChainName;

use super::change::{
    ExistingChain, IptablesRemoval, IptablesRuleset, IptablesUndo, JumpRemoval, OwnedChain, OwnedChainRef,
    RulePlacement, SharedRule,
};
use super::remove::{ATTEMPTS, remove};
use super::rule::{IptablesRule, Target};
use super::seen::SeenChains;
use super::transport::{Batch, BatchLine, Iptables};
use crate::error::{NetfilterError, NetfilterErrorKind, retried};
use crate::position::{ReplacementUndo, RulePosition};

/// Ensures that rules exist, each once. Returns the undo of exactly what was changed: `None` if nothing was; it never
/// removes shared rules, nor a rule that existed before. A chain that holds the wanted rules is not changed.
///
/// # Errors
/// Then nothing was changed.
pub fn ensure(tables: &mut dyn Iptables, want: &IptablesRuleset) -> Result<Option<IptablesUndo>, NetfilterError> {
    if let ControlFlow::Break(undo) = try_at_once(tables, want)? {
        return Ok(undo);
    }
    if tables.absence(want.family, want.table).is_some() {
        // Nothing can be added, so there is nothing to keep others from.
        return repair(tables, want);
    }
    let mut lock = tables.lock()?;
    if lock.has_waited {
        // Others wait as well, and their batches may fit now too.
        drop(lock);
        if let ControlFlow::Break(undo) = try_at_once(tables, want)? {
            return Ok(undo);
        }
        lock = tables.lock()?;
    }
    let repaired = repair(tables, want);
    drop(lock);
    repaired
}

/// One attachment has no more chains than this. Of many together, which are repaired, one misfit would refuse the whole batch.
const MOST_AT_ONCE: usize = 16;

/// Carries out the batch with its own conditions. Where it does not fit, nothing was changed, and more is to be done.
fn try_at_once(
    tables: &mut dyn Iptables,
    want: &IptablesRuleset,
) -> Result<ControlFlow<Option<IptablesUndo>>, NetfilterError> {
    let Some(draft) = BatchDraft::optimistic(tables, want)? else { return Ok(ControlFlow::Continue(())) };
    match draft.commit(tables) {
        Err(error) if error.is_refusal() => Ok(ControlFlow::Continue(())),
        done => done.map(ControlFlow::Break),
    }
}

/// Mends what is shared, and adds what is owned, under the lock.
fn repair(tables: &mut dyn Iptables, want: &IptablesRuleset) -> Result<Option<IptablesUndo>, NetfilterError> {
    retried(ATTEMPTS, |_| {
        let seen = SeenChains::observe(tables, want.family, want.table, want.chains())?;
        BatchDraft::repaired(want, &seen).commit(tables)
    })
}

/// Takes back what [`ensure`] has changed. Absence of what it added is success.
///
/// # Errors
/// The first failure; what was replaced and what was added are tried both.
pub fn undo(tables: &mut dyn Iptables, undo: &IptablesUndo) -> Result<(), NetfilterError> {
    let ReplacementUndo { replaced, added } = undo;
    let restored = replaced.as_ref().map_or(Ok(()), |replaced| ensure(tables, replaced).map(|_| ()));
    let removed = added.as_ref().map_or(Ok(()), |added| remove(tables, added));
    restored.and(removed)
}

/// A batch under construction, and which parts of it belong to the attachment.
struct BatchDraft<'a> {
    want: &'a IptablesRuleset,
    ops: Vec<BatchLine>,
    /// Chains of the container that this batch makes.
    created: Vec<&'a OwnedChain>,
    /// Chains of the container that this batch fills, those that it makes included.
    filled: Vec<&'a OwnedChain>,
    added: Vec<IptablesRule>,
    /// The rules that this batch replaces.
    replaced: Option<IptablesRuleset>,
}

impl<'a> BatchDraft<'a> {
    const fn new(want: &'a IptablesRuleset) -> Self {
        Self { want, ops: Vec::new(), created: Vec::new(), filled: Vec::new(), added: Vec::new(), replaced: None }
    }

    /// The batch that fits a host in its usual state; `None` when no batch could prove that it fits.
    fn optimistic(tables: &mut dyn Iptables, want: &'a IptablesRuleset) -> Result<Option<Self>, NetfilterError> {
        if !proves_shared_chains(want) || want.chains.len() > MOST_AT_ONCE {
            return Ok(None);
        }
        // Where the rules of others are, only a listing tells.
        if want.position != RulePosition::Back || out_of_order(tables, want)?.is_some() {
            return Ok(None);
        }
        let mut draft = Self::new(want);
        draft.ops.extend(want.shared.iter().map(|shared| BatchLine::Require(shared.rule.clone())));
        if !want.chains.is_empty() {
            if !lead_to_own(want) {
                return Ok(None);
            }
            want.chains.iter().for_each(|chain| draft.create(chain));
            draft.fill();
            want.rules.iter().for_each(|rule| draft.append(rule));
            return Ok(Some(draft));
        }
        let places = SeenChains::find(tables, want.family, want.table, &want.rules)?;
        want.rules.iter().for_each(|rule| draft.add_missing(rule, places.copies(rule)));
        // If all rules exist, this is a repair, and the places of shared rules count.
        Ok(Some(draft).filter(|draft| want.rules.is_empty() || !draft.added.is_empty()))
    }

    /// The batch that fits what was seen.
    fn repaired(want: &'a IptablesRuleset, seen: &SeenChains) -> Self {
        let mut draft = Self::new(want);
        draft
            .ops
            .extend(want.shared_chains.iter().filter(|chain| !seen.exists(chain)).cloned().map(BatchLine::CreateChain));
        want.shared.iter().for_each(|shared| draft.mend(shared, seen));
        let (before, stale) = owned_state(want, seen);
        draft.ops.extend(stale.iter().cloned().map(BatchLine::Delete));
        for chain in &want.chains {
            match chain.existing {
                _ if !seen.exists(&chain.name) => draft.create(chain),
                ExistingChain::Replace | ExistingChain::ReplaceInOrder => draft.refill(chain, seen),
                ExistingChain::Merge => draft.merge(chain, seen),
            }
        }
        draft.fill();
        let deleted: HashSet<&IptablesRule> = stale.iter().collect();
        for rule in &want.rules {
            if deleted.contains(&rule.canonical()) {
                draft.append(rule);
            } else {
                draft.add_missing(rule, seen.copies(rule));
            }
        }
        draft.move_later(seen);
        let is_replaced = !stale.is_empty() || draft.filled.len() > draft.created.len();
        draft.replaced = is_replaced.then_some(before);
        draft
    }

    /// Adds a shared rule at its place, or removes surplus copies.
    fn mend(&mut self, SharedRule { rule, place }: &SharedRule, seen: &SeenChains) {
        let copies = seen.copies(rule);
        let is_moved = match place {
            RulePlacement::Last => false,
            RulePlacement::First => copies > 1 && seen.is_first(rule),
            RulePlacement::Above(other) => copies > 1 || !seen.is_above(rule, other),
            RulePlacement::Below(_) => {
                (copies > 1 && seen.is_first(rule)) || is_unreached(seen.rules(&rule.chain), rule)
            }
        };
        match (copies, place) {
            (0, RulePlacement::Last) => self.ops.push(BatchLine::Append(rule.clone())),
            (0, _) => self.ops.push(BatchLine::Insert(rule.clone())),
            (_, _) if is_moved => self.move_to_top(rule, seen),
            // Deletion takes the first copy, so the last one stays: never before a rule that was before it.
            (copies, _) => return self.delete(rule, copies - 1),
        }
        if let RulePlacement::Below(top) = place {
            self.move_to_top(top, seen);
        }
    }

    /// Moves a rule to the front of its chain, if it exists, and leaves one copy. A rule that this batch has moved
    /// already is not moved again.
    fn move_to_top(&mut self, rule: &IptablesRule, seen: &SeenChains) {
        let copies = seen.copies(rule);
        let insert = BatchLine::Insert(rule.clone());
        if copies > 0 && !self.ops.contains(&insert) {
            self.delete(rule, copies);
            self.ops.push(insert);
        }
    }

    fn delete(&mut self, rule: &IptablesRule, copies: usize) {
        self.ops.extend(std::iter::repeat_n(BatchLine::Delete(rule.clone()), copies));
    }

    fn create(&mut self, chain: &'a OwnedChain) {
        self.ops.push(BatchLine::CreateChain(chain.name.clone()));
        self.created.push(chain);
        self.filled.push(chain);
    }

    /// Fills a chain again, unless it holds the wanted rules.
    fn refill(&mut self, chain: &'a OwnedChain, seen: &SeenChains) {
        if !chain.rules.iter().map(IptablesRule::canonical).eq(seen.rules(&chain.name).cloned()) {
            self.ops.push(BatchLine::EmptyChain(chain.name.clone()));
            self.filled.push(chain);
        }
    }

    /// Fills the chains, after all chains exist to which their rules may jump.
    fn fill(&mut self) {
        let rules = self.filled.iter().flat_map(|chain| &chain.rules);
        self.ops.extend(rules.cloned().map(BatchLine::Append));
    }

    /// Adds the missing rules to a chain, and moves its last one behind them.
    fn merge(&mut self, chain: &OwnedChain, seen: &SeenChains) {
        let Some((last, others)) = chain.rules.split_last() else {
            return;
        };
        let missing: Vec<&IptablesRule> = others.iter().filter(|rule| seen.copies(rule) == 0).collect();
        let closing = seen.is_last(last);
        let copies = seen.copies(last);
        if missing.is_empty() && closing && copies == 1 {
            return;
        }
        self.delete(last, copies);
        missing.into_iter().for_each(|rule| self.append(rule));
        if copies == 0 {
            self.append(last);
        } else {
            self.ops.push(BatchLine::Append(last.clone()));
        }
    }

    fn append(&mut self, rule: &IptablesRule) {
        self.ops.push(BatchLine::Append(rule.clone()));
        self.added.push(rule.clone());
    }

    fn add_missing(&mut self, rule: &IptablesRule, copies: usize) {
        match copies {
            0 => self.append(rule),
            copies => self.delete(rule, copies - 1),
        }
    }

    /// Moves the rules of others that come later behind the container's.
    fn move_later(&mut self, seen: &SeenChains) {
        let want = self.want;
        let own: HashSet<IptablesRule> = want.rules.iter().map(IptablesRule::canonical).collect();
        let is_own = |rule: &&IptablesRule| own.contains(*rule);
        let is_later =
            |rule: &&IptablesRule| matches!(&rule.target, Target::Jump(to) if want.position.is_before(to.as_str()));
        let chains: BTreeSet<&ChainName> = want.rules.iter().map(|rule| &rule.chain).collect();
        for chain in chains.into_iter().filter(|_| want.position != RulePosition::Back) {
            let is_extended = self.added.iter().any(|rule| rule.chain == *chain);
            let found: Vec<&IptablesRule> = seen.rules(chain).collect();
            for rule in RulePosition::moved(&found, is_extended, is_own, is_later) {
                self.ops.extend([BatchLine::Delete((*rule).clone()), BatchLine::Append((*rule).clone())]);
            }
        }
    }

    /// Carries out the batch. If its outcome is unknown, it may have been carried out, and is undone.
    fn commit(mut self, tables: &mut dyn Iptables) -> Result<Option<IptablesUndo>, NetfilterError> {
        if self.ops.is_empty() {
            return Ok(None);
        }
        let ops = std::mem::take(&mut self.ops);
        match tables.commit(&Batch { family: self.want.family, table: self.want.table, ops }) {
            Ok(()) => Ok(self.undo()),
            Err(error) if error.kind == NetfilterErrorKind::Unanswered => {
                match self.undo().map_or(Ok(()), |undo| self::undo(tables, &undo)) {
                    Ok(()) => Err(error),
                    Err(failed) => Err(error.unsettled(&failed)),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn undo(self) -> Option<IptablesUndo> {
        let Self { want, created, mut added, replaced, .. } = self;
        let restored: HashSet<&IptablesRule> = replaced.iter().flat_map(|replaced| &replaced.rules).collect();
        added.retain(|rule| !restored.contains(&rule.canonical()));
        // Each once: the rules of many attachments are in few chains.
        let mut seen = HashSet::new();
        let parents: Vec<_> = want.rules.iter().map(|rule| &rule.chain).filter(|chain| seen.insert(*chain)).collect();
        let parents = || parents.iter().map(|chain| (*chain).clone()).collect();
        let chains = created.iter().map(|chain| OwnedChainRef {
            name: chain.name.clone(),
            parents: parents(),
            jumps: JumpRemoval::Listed,
        });
        let removal =
            IptablesRemoval { family: want.family, table: want.table, chains: chains.collect(), rules: added };
        let is_empty = removal.chains.is_empty() && removal.rules.is_empty();
        IptablesUndo::new(replaced, (!is_empty).then_some(removal))
    }
}

/// A wanted rule, if the search finds one.
pub(super) type FoundRule<'a> = Result<Option<&'a IptablesRule>, NetfilterError>;

/// The first shared rule that comes behind one that it must be above. No condition of a batch could say so; chains are
/// read only where an order is wanted.
pub(super) fn out_of_order<'a>(tables: &mut dyn Iptables, want: &'a IptablesRuleset) -> FoundRule<'a> {
    let ordered: Vec<(&IptablesRule, &IptablesRule)> = want.shared.iter().filter_map(SharedRule::order).collect();
    let both = ordered.iter().flat_map(|(rule, other)| [*rule, *other]);
    let places = SeenChains::find(tables, want.family, want.table, both)?;
    Ok(ordered.into_iter().find(|(rule, other)| !places.is_above(rule, other)).map(|(rule, _)| rule))
}

/// The first shared rule of a chain of others that packets do not come to, since another rule drops them all.
pub(super) fn unreached<'a>(tables: &mut dyn Iptables, want: &'a IptablesRuleset) -> FoundRule<'a> {
    let is_below = |shared: &&SharedRule| matches!(shared.place, RulePlacement::Below(_));
    for SharedRule { rule, .. } in want.shared.iter().filter(is_below) {
        let rules = tables.list(want.family, want.table, &rule.chain)?.unwrap_or_default();
        if is_unreached(&rules, rule) {
            return Ok(Some(rule));
        }
    }
    Ok(None)
}

/// Whether all copies of a rule are behind one that drops or rejects all packets.
pub fn is_unreached<'a>(rules: impl IntoIterator<Item = &'a IptablesRule>, wanted: &IptablesRule) -> bool {
    let is_reject = |target: &Target| matches!(target, Target::Raw(words) if words.iter().any(|word| word == "REJECT"));
    let ends =
        |rule: &IptablesRule| rule.matches.is_empty() && (rule.target == Target::Drop || is_reject(&rule.target));
    let wanted = wanted.canonical();
    let mut rules = rules.into_iter().skip_while(|rule| !ends(rule) && **rule != wanted).peekable();
    rules.peek().is_some_and(|first| ends(first)) && rules.any(|rule| *rule == wanted)
}

/// Whether every rule of the attachment jumps to one of its chains.
fn lead_to_own(want: &IptablesRuleset) -> bool {
    let own: HashSet<&ChainName> = want.chains.iter().map(|chain| &chain.name).collect();
    want.rules.iter().all(|rule| matches!(&rule.target, Target::Jump(to) if own.contains(to)))
}

/// Whether requiring the shared rules proves that the shared chains exist: each contains a rule or is the target of
/// one.
fn proves_shared_chains(want: &IptablesRuleset) -> bool {
    want.shared_chains.iter().all(|chain| {
        want.shared.iter().any(|SharedRule { rule, place: _ }| rule.chain == *chain || rule.jumps_to(chain))
    })
}

/// Looks at what was seen of the chains that `want` may replace. Only rules in chains that hold wanted rules count. Returns
/// the chains that exist with the rules that jump to them, and those of these rules that do not keep their positions.
pub(super) fn owned_state(want: &IptablesRuleset, seen: &SeenChains) -> (IptablesRuleset, Vec<IptablesRule>) {
    let replaceable = || want.chains.iter().filter(|chain| chain.existing != ExistingChain::Merge);
    let names: BTreeSet<&ChainName> = replaceable().map(|chain| &chain.name).collect();
    let parents: BTreeSet<&ChainName> = want.rules.iter().map(|rule| &rule.chain).collect();
    let leads_there = |rule: &&IptablesRule| matches!(&rule.target, Target::Jump(to) if names.contains(to));
    let is_entry = |rule: &&IptablesRule| parents.contains(&rule.chain) && leads_there(rule);
    let rules: Vec<IptablesRule> = seen.all_rules().filter(is_entry).cloned().collect();
    let wanted: Vec<IptablesRule> = want.rules.iter().filter(leads_there).map(IptablesRule::canonical).collect();
    let content = |chain: &OwnedChain| {
        let rules = seen.rules(&chain.name).cloned().collect();
        OwnedChain { name: chain.name.clone(), rules, existing: chain.existing }
    };
    let stale = stale_entries(want, &rules, &wanted, &parents);
    let chains = replaceable().filter(|chain| seen.exists(&chain.name)).map(content).collect();
    let (family, table, position) = (want.family, want.table, want.position.clone());
    let (shared_chains, shared) = (Vec::new(), Vec::new());
    (IptablesRuleset { family, table, shared_chains, shared, chains, rules, position }, stale)
}

fn of_chain<'a>(rules: &'a [IptablesRule], chain: &'a ChainName) -> impl Iterator<Item = &'a IptablesRule> {
    rules.iter().filter(move |rule| rule.chain == *chain)
}

/// The rules to be removed among those that jump to a container's chains. If their order matters, that is all of them
/// unless they are the wanted ones.
fn stale_entries(
    want: &IptablesRuleset,
    found: &[IptablesRule],
    wanted: &[IptablesRule],
    parents: &BTreeSet<&ChainName>,
) -> Vec<IptablesRule> {
    let is_ordered = want.chains.iter().any(|chain| chain.existing == ExistingChain::ReplaceInOrder);
    match (are_same(found, wanted, parents), is_ordered) {
        (true, _) => Vec::new(),
        (false, true) => found.to_vec(),
        (false, false) => found.iter().filter(|rule| !wanted.contains(rule)).cloned().collect(),
    }
}

/// Whether two lists of rules are the same in each chain, in the same order.
fn are_same(found: &[IptablesRule], wanted: &[IptablesRule], parents: &BTreeSet<&ChainName>) -> bool {
    parents.iter().all(|parent| of_chain(found, parent).eq(of_chain(wanted, parent)))
}
