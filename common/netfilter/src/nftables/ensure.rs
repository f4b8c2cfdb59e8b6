//! Ensures that rules exist, or do not: reads the chains, and adds what is missing, or deletes what was found, in one transaction.
//!
//! Another program may change something between the reading and the transaction. If a rule or chain that was read is
//! deleted, the kernel refuses the transaction, and everything is read again. If a chain is filled in between, it is
//! not filled twice, since the transaction empties it first. A rule that is added to the rules of others could be
//! added twice. When another program loads the tables again, handles start again at 1, so a deletion could meet the rule of another
//! container. Such a transaction is bound to the generation that was read: the kernel refuses it if anything has changed since.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::change::{
    ChainContent, ExistingRules, NftRemoval, NftRuleset, NftUndo, OwnedRules, RuleSelection, RuleTag, UnwantedNftRules,
    WantedChain,
};
use super::listed::{ListedRule, RuleText};
use super::object::{ChainId, NftChain, SetElements, SetId};
use super::rule::{Expression, NftRule};
use super::seen::{ChainQueries, Nftables, SeenObjects};
use super::transport::{NftChange, Transaction};
use crate::error::{NetfilterError, retried};
use crate::position::RulePosition;

/// Ensures that rules exist, each once. Returns the undo of exactly what was changed: `None` if nothing was; it never
/// removes shared rules, nor a rule that existed before.
///
/// # Errors
/// Then nothing was changed.
pub fn ensure(nftables: &mut dyn Nftables, want: &NftRuleset) -> Result<Option<NftUndo>, NetfilterError> {
    let mut is_bound = want.adds_to_others();
    retried(ATTEMPTS, |attempt| {
        loop {
            let generation = if is_bound { Some(nftables.generation()?) } else { None };
            let seen = observe(nftables, want)?;
            let TransactionDraft { mut transaction, added, replaced, adds_to_others } =
                TransactionDraft::new(want, &seen);
            let deletes = transaction.deletes_by_handle();
            if deletes && !is_bound {
                is_bound = true;
                continue;
            }
            transaction.since = generation.filter(|_| adds_to_others || (deletes && attempt < ATTEMPTS));
            if transaction.ops.is_empty() {
                return Ok(None);
            }
            nftables.commit(&transaction)?;
            let replaced = Some(replaced).filter(|replaced| *replaced != NftRuleset::default());
            return Ok(NftUndo::new(replaced, Some(added).filter(|added| *added != NftRemoval::default())));
        }
    })
}

/// Reads what must be known, the attachment's own chains first.
fn observe(nftables: &mut dyn Nftables, want: &NftRuleset) -> Result<SeenObjects, NetfilterError> {
    let mut own = ChainQueries::default();
    for WantedChain { chain, content } in &want.chains {
        if let ChainContent::Own(_) = content {
            own.whole(&chain.id);
        }
    }
    let mut seen = SeenObjects::default();
    seen.read(nftables, &own)?;
    seen.read(nftables, &questions(want, &seen))?;
    seen.look_up(nftables, &want.elements)?;
    Ok(seen)
}

/// What must be known of the other chains. Chains with the rules of all containers are not read as a whole, unless a rule
/// must precede all others. No rule jumps to a chain that does not exist, so none is looked for.
fn questions<'a>(want: &'a NftRuleset, seen: &SeenObjects) -> ChainQueries<'a> {
    let mut questions = ChainQueries::default();
    for WantedChain { chain, content } in &want.chains {
        match content {
            ChainContent::Open => questions.these(&chain.id, []),
            ChainContent::AtLeast(rules) => questions.these(&chain.id, [RuleSelection::Listed(rules.clone())]),
            ChainContent::Fixed(_) => questions.whole(&chain.id),
            ChainContent::Own(_) => {}
        }
    }
    for OwnedRules { chain, tag, rules, existing, position } in &want.owned {
        match (position, existing) {
            (RulePosition::Before(_), _) => questions.whole(chain),
            (RulePosition::Back, ExistingRules::Replace) if seen.is_absent_target(tag, chain) => {
                questions.these(chain, []);
            }
            (RulePosition::Back, ExistingRules::Replace) => {
                questions.these(chain, [RuleSelection::Tagged(tag.clone())])
            }
            (RulePosition::Back, ExistingRules::Keep) => questions.these(chain, [RuleSelection::Listed(rules.clone())]),
        }
    }
    questions
}

/// A transaction that is being built, and what undoes the attachment's part of it.
#[derive(Default)]
struct TransactionDraft {
    transaction: Transaction,
    /// The attachment's own rules that are added.
    added: NftRemoval,
    /// The attachment's own rules that are replaced.
    replaced: NftRuleset,
    /// Whether rules are added to a chain whose other rules stay.
    adds_to_others: bool,
}

impl TransactionDraft {
    fn new(want: &NftRuleset, seen: &SeenObjects) -> Self {
        let mut draft = Self::default();
        let tables = want.tables.iter().filter(|table| !seen.has_table(&table.id));
        draft.extend(tables.cloned().map(NftChange::AddTable));
        let sets = want.sets.iter().filter(|set| !seen.has_set(&set.id) && !is_named(&set.id, want, seen));
        draft.extend(sets.cloned().map(NftChange::AddSet));
        let chains = want.chains.iter().map(|wanted| &wanted.chain).filter(|chain| !seen.exists(&chain.id));
        draft.extend(chains.cloned().map(NftChange::AddChain));
        want.chains.iter().for_each(|wanted| draft.fill(wanted, seen));
        want.owned.iter().for_each(|owned| draft.own(owned, seen));
        want.elements.iter().for_each(|elements| draft.put(elements, seen));
        draft
    }

    fn extend(&mut self, ops: impl IntoIterator<Item = NftChange>) {
        self.transaction.ops.extend(ops);
    }

    /// Fills a chain, unless it holds exactly what it should.
    fn fill(&mut self, WantedChain { chain, content }: &WantedChain, seen: &SeenObjects) {
        match content {
            ChainContent::Open => {}
            ChainContent::AtLeast(rules) => {
                let lacking: Vec<NftRule> = lacking(rules, seen.rules(&chain.id)).collect();
                self.adds_to_others |= !lacking.is_empty();
                self.extend(lacking.into_iter().map(NftChange::AddRule));
            }
            ChainContent::Fixed(rules) => {
                self.refill(&chain.id, rules, seen);
            }
            ChainContent::Own(rules) => {
                if self.refill(&chain.id, rules, seen) {
                    self.note_filled(chain, seen);
                }
            }
        }
    }

    /// Fills a chain again if its rules differ. Returns whether they did.
    fn refill(&mut self, chain: &ChainId, rules: &[NftRule], seen: &SeenObjects) -> bool {
        let differs = !seen.exists(chain) || !are(seen.rules(chain).iter(), rules);
        if differs {
            self.extend([NftChange::FlushChain(chain.clone())]);
            self.extend(rules.iter().cloned().map(NftChange::AddRule));
        }
        differs
    }

    /// Records how to undo the filling of a chain. A chain that held a rule with a user's own words keeps its new
    /// rules: the kernel does not return the words, and the chain of a living attachment must not be empty.
    fn note_filled(&mut self, chain: &NftChain, seen: &SeenObjects) {
        if !seen.exists(&chain.id) {
            self.added.chains.push(chain.id.clone());
        } else if let Some(rules) = made_again(seen.rules(&chain.id), &chain.id) {
            self.replaced.chains.push(WantedChain { chain: chain.clone(), content: ChainContent::Own(rules) });
        }
    }

    /// Puts the attachment's elements into a set.
    fn put(&mut self, elements: &SetElements, seen: &SeenObjects) {
        let (_, absent) = seen.divide(elements);
        if !absent.addresses.is_empty() {
            self.extend([NftChange::AddElements(absent.clone())]);
            self.added.elements.push(absent);
        }
    }

    /// Adds the attachment's rules to a chain that it shares.
    fn own(&mut self, owned: &OwnedRules, seen: &SeenObjects) {
        let OwnedRules { chain, tag, rules, existing, position } = owned;
        let found = seen.rules(chain);
        let lacking = match existing {
            ExistingRules::Keep => {
                let lacking: Vec<NftRule> = lacking(rules, found).collect();
                self.adds_to_others |= !lacking.is_empty();
                self.add(chain, &lacking);
                lacking
            }
            ExistingRules::Replace => {
                let tagged: Vec<&ListedRule> = found.iter().filter(|rule| tag.is_on(rule)).collect();
                let (stale, lacking) = replacement(owned, &tagged);
                if !stale.is_empty() || !lacking.is_empty() {
                    self.extend(stale.iter().map(|rule| NftChange::DeleteRule(chain.clone(), rule.handle)));
                    self.extend(lacking.iter().cloned().map(NftChange::AddRule));
                    self.note_replaced(owned, tagged);
                }
                lacking
            }
        };
        if let RulePosition::Before(_) = position {
            self.move_later(owned, found, !lacking.is_empty());
        }
    }

    /// Remembers what undoes the replacement of an attachment's rules in a chain that it shares.
    fn note_replaced(&mut self, owned: &OwnedRules, before: Vec<&ListedRule>) {
        let OwnedRules { chain, tag, rules, .. } = owned;
        if let Some(before) = made_again(before, chain).filter(|before| !before.is_empty()) {
            self.replaced.owned.push(OwnedRules { rules: before, ..owned.clone() });
            return;
        }
        let is_by_target = matches!(tag, RuleTag::LeadsTo(_));
        let which =
            if is_by_target { RuleSelection::Tagged(tag.clone()) } else { RuleSelection::Listed(rules.clone()) };
        self.added.rules.push(UnwantedNftRules { chain: chain.clone(), which });
    }

    /// Moves the rules of others that come later behind the attachment's. One that cannot be written as it was read stays.
    fn move_later(
        &mut self,
        OwnedRules { chain, rules, position, .. }: &OwnedRules,
        found: &[ListedRule],
        is_extended: bool,
    ) {
        let own: HashSet<RuleText> = rules.iter().map(RuleText::of).collect();
        let is_own = |rule: &ListedRule| rule.text(chain.table.family).is_some_and(|text| own.contains(&text));
        let is_later = |rule: &ListedRule| rule.leads_to().any(|to| position.is_before(to.as_str()));
        for rule in RulePosition::moved(found, is_extended, is_own, is_later) {
            if let Some(copy) = rule.to_rule(chain) {
                self.extend([NftChange::DeleteRule(chain.clone(), rule.handle), NftChange::AddRule(copy)]);
            }
        }
    }

    fn add(&mut self, chain: &ChainId, rules: &[NftRule]) {
        if rules.is_empty() {
            return;
        }
        self.extend(rules.iter().cloned().map(NftChange::AddRule));
        self.added.rules.push(UnwantedNftRules { chain: chain.clone(), which: RuleSelection::Listed(rules.to_vec()) });
    }
}

/// The rules with a tag that are removed, and those that are added in their place.
fn replacement<'a>(
    OwnedRules { chain, tag, rules, .. }: &OwnedRules,
    found: &[&'a ListedRule],
) -> (Vec<&'a ListedRule>, Vec<NftRule>) {
    if are(found.iter().copied(), rules) {
        return (Vec::new(), Vec::new());
    }
    let RuleTag::LeadsTo(_) = tag else { return (found.to_vec(), rules.clone()) };
    // These all lead to one chain, so their order does not matter, and those that stay keep their places.
    let mut left: HashSet<RuleText> = rules.iter().map(RuleText::of).collect();
    let mut is_stale = |rule: &ListedRule| !rule.text(chain.table.family).is_some_and(|text| left.remove(&text));
    let stale = found.iter().copied().filter(|rule| is_stale(rule)).collect();
    (stale, rules.iter().filter(|rule| left.contains(&RuleText::of(rule))).cloned().collect())
}

/// Rules that were found, as they can be made again; `None` where that is not possible for all of them.
fn made_again<'a>(found: impl IntoIterator<Item = &'a ListedRule>, chain: &ChainId) -> Option<Vec<NftRule>> {
    found.into_iter().map(|rule| rule.to_rule(chain)).collect()
}

/// Those of some rules that are not among others.
fn lacking<'a>(rules: &'a [NftRule], found: &'a [ListedRule]) -> impl Iterator<Item = NftRule> + 'a {
    rules.iter().filter(|rule| !found.iter().any(|found| found.is(rule))).cloned()
}

/// Whether an existing rule proves that a set exists: the kernel keeps a set that a rule refers to.
fn is_named(set: &SetId, want: &NftRuleset, seen: &SeenObjects) -> bool {
    let chains = want.chains.iter().map(|wanted| &wanted.chain.id).filter(|chain| chain.table == set.table);
    let parts = chains.flat_map(|chain| seen.rules(chain)).filter_map(|rule| rule.expressions.as_deref()).flatten();
    parts.filter_map(Expression::looks_in).any(|name| *name == set.name)
}

/// Whether the found rules are exactly the wanted ones, in order.
fn are<'a>(found: impl ExactSizeIterator<Item = &'a ListedRule>, wanted: &[NftRule]) -> bool {
    found.len() == wanted.len() && found.zip(wanted).all(|(found, wanted)| found.is(wanted))
}

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
