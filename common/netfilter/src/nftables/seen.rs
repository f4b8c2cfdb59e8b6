//! The trait between decisions about nf_tables and the machine, and what was read by it: the chains and sets as they were at that moment,
//! for one transaction or to find what is missing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use super::change::{NftRuleset, RuleSelection, RuleTag, WantedRules};
use super::listed::{ListedRule, RuleText};
use super::object::{ChainId, SetElements, SetId, TableId};
use super::rule::NftRule;
use super::transport::{Generation, Transaction};
use crate::error::NetfilterError;

/// The nf_tables of the network namespace that the plugin runs in.
pub trait Nftables {
    /// The rules of a chain in order; `None` when the chain does not exist.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn list(&mut self, chain: &ChainId) -> Result<Option<Vec<ListedRule>>, NetfilterError>;

    /// Returns the selected rules of a chain, in order; `None` if the chain does not exist. May read only a part of the chain.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn find(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<ListedRule>>, NetfilterError> {
        let meant = WantedRules::new(meant);
        let is_meant = |rule: &ListedRule| meant.hold(chain.table.family, rule);
        Ok(self.list(chain)?.map(|rules| rules.into_iter().filter(is_meant).collect()))
    }

    /// The numbers of those rules of a chain that are meant, in order; `None` when the chain does not exist.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never treated as absence.
    fn find_handles(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<u64>>, NetfilterError> {
        Ok(self.find(chain, meant)?.map(|rules| rules.iter().map(|rule| rule.handle).collect()))
    }

    /// Which of some addresses a set holds; `None` when the set does not exist.
    ///
    /// # Errors
    /// When the set cannot be read, which is never treated as absence.
    fn held(&mut self, elements: &SetElements) -> Result<Option<Vec<IpAddr>>, NetfilterError>;

    /// The state that everything is in.
    fn generation(&mut self) -> Result<Generation, NetfilterError>;

    /// Carries out a transaction, completely or not at all.
    ///
    /// # Errors
    /// [`NetfilterErrorKind::Refused`](crate::NetfilterErrorKind::Refused) if a change does not fit what exists, or if something has changed since the
    /// generation that it is bound to.
    fn commit(&mut self, transaction: &Transaction) -> Result<(), NetfilterError>;
}

/// How much of some chains is read: those of their rules that are meant and whether the chain exists, or all of it.
#[derive(Default)]
pub(super) struct ChainQueries<'a>(BTreeMap<&'a ChainId, Option<Vec<RuleSelection>>>);

impl<'a> ChainQueries<'a> {
    /// Asks for all rules of a chain.
    pub(super) fn whole(&mut self, chain: &'a ChainId) {
        self.0.insert(chain, None);
    }

    /// Asks for some rules of a chain, and whether it exists.
    pub(super) fn these(&mut self, chain: &'a ChainId, meant: impl IntoIterator<Item = RuleSelection>) {
        if let Some(asked) = self.0.entry(chain).or_insert_with(|| Some(Vec::new())) {
            asked.extend(meant);
        }
    }
}

/// The chains, and the elements of sets, that were asked for.
#[derive(Default)]
pub(super) struct SeenObjects {
    /// `None` for a chain that does not exist.
    chains: BTreeMap<ChainId, Option<Vec<ListedRule>>>,
    /// `None` for a set that does not exist.
    sets: Vec<(SetId, Option<Vec<IpAddr>>)>,
}

impl SeenObjects {
    /// Reads chains, as far as requested, and looks up elements.
    pub(super) fn observe(
        nftables: &mut dyn Nftables,
        chains: &ChainQueries<'_>,
        elements: &[SetElements],
    ) -> Result<Self, NetfilterError> {
        let mut seen = Self::default();
        seen.read(nftables, chains)?;
        seen.look_up(nftables, elements)?;
        Ok(seen)
    }

    /// Reads chains, as far as requested.
    pub(super) fn read(
        &mut self,
        nftables: &mut dyn Nftables,
        chains: &ChainQueries<'_>,
    ) -> Result<(), NetfilterError> {
        for (chain, question) in &chains.0 {
            let rules = match question {
                None => nftables.list(chain)?,
                Some(meant) => nftables.find(chain, meant)?,
            };
            self.chains.insert((*chain).clone(), rules);
        }
        Ok(())
    }

    /// Looks up elements.
    pub(super) fn look_up(
        &mut self,
        nftables: &mut dyn Nftables,
        elements: &[SetElements],
    ) -> Result<(), NetfilterError> {
        for wanted in elements {
            self.sets.push((wanted.set.clone(), nftables.held(wanted)?));
        }
        Ok(())
    }

    /// Whether rules with a tag in a chain would jump to a chain that does not exist.
    pub(super) fn is_absent_target(&self, tag: &RuleTag, chain: &ChainId) -> bool {
        let RuleTag::LeadsTo(name) = tag else { return false };
        self.chains.get(&chain.table.chain_named(name.clone())).is_some_and(Option::is_none)
    }

    pub(super) fn exists(&self, chain: &ChainId) -> bool {
        self.chains.get(chain).is_some_and(Option::is_some)
    }

    /// Whether one of its chains proves that a table exists.
    pub(super) fn has_table(&self, table: &TableId) -> bool {
        self.chains.iter().any(|(chain, rules)| chain.table == *table && rules.is_some())
    }

    /// Whether a set exists: one of its elements was found, or the set was read.
    pub(super) fn has_set(&self, set: &SetId) -> bool {
        self.sets.iter().any(|(seen, held)| seen == set && held.is_some())
    }

    /// The rules of a chain that were asked for, none when it does not exist.
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

/// The first wanted rule that does not exist; `None` if all exist. The position of a rule, other rules of the chain,
/// and the number of copies do not matter.
///
/// A rule with a user's own words counts as existing, too, if its chain contains one that differs only in those words,
/// or else one of the same owner that cannot be decoded; each of these counts for one rule.
pub fn missing<'a>(nftables: &mut dyn Nftables, want: &'a NftRuleset) -> Result<Option<&'a NftRule>, NetfilterError> {
    let mut questions = ChainQueries::default();
    for rule in want.all_rules() {
        if rule.has_words() {
            questions.whole(&rule.chain);
        } else {
            questions.these(&rule.chain, [RuleSelection::Listed(vec![rule.clone()])]);
        }
    }
    let seen = SeenObjects::observe(nftables, &questions, &[])?;
    let chains: BTreeSet<&ChainId> = want.all_rules().map(|rule| &rule.chain).collect();
    let mut found: BTreeMap<&ChainId, FoundRules<'_>> =
        chains.into_iter().map(|chain| (chain, FoundRules::of(chain, seen.rules(chain)))).collect();
    let mut is_there = |rule: &NftRule| found.get_mut(&rule.chain).is_some_and(|found| found.has(rule));
    Ok(want.all_rules().find(|rule| !is_there(rule)))
}

/// The missing elements of the first set that does not contain all that are wanted; `None` when nothing is missing.
pub fn missing_elements(nftables: &mut dyn Nftables, want: &NftRuleset) -> Result<Option<SetElements>, NetfilterError> {
    let seen = SeenObjects::observe(nftables, &ChainQueries::default(), &want.elements)?;
    let mut absent = want.elements.iter().map(|elements| seen.divide(elements).1);
    Ok(absent.find(|absent| !absent.addresses.is_empty()))
}

/// The rules of a chain as text, so that each is looked up and not compared with all.
struct FoundRules<'a> {
    rules: &'a [ListedRule],
    texts: HashSet<RuleText>,
    /// For each owner, the number of rules that cannot be decoded and have not been counted as a wanted rule.
    unreadable: HashMap<Option<String>, usize>,
}

impl<'a> FoundRules<'a> {
    fn of(chain: &ChainId, rules: &'a [ListedRule]) -> Self {
        let mut unreadable = HashMap::new();
        for rule in rules.iter().filter(|rule| rule.expressions.is_none()) {
            *unreadable.entry(rule.comment.clone()).or_default() += 1;
        }
        Self { rules, texts: rules.iter().filter_map(|rule| rule.text(chain.table.family)).collect(), unreadable }
    }

    fn has(&mut self, rule: &NftRule) -> bool {
        self.texts.contains(&RuleText::of(rule)) || (rule.has_words() && self.has_in_other_words(rule))
    }

    fn has_in_other_words(&mut self, rule: &NftRule) -> bool {
        if self.rules.iter().any(|found| found.is_in_other_words(rule)) {
            return true;
        }
        let left = self.unreadable.get_mut(&rule.comment.as_ref().map(ToString::to_string));
        left.filter(|left| **left > 0).map(|left| *left -= 1).is_some()
    }
}
