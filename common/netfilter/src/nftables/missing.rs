//! Checks whether rules and elements exist, and changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::backend::Nftables;
use super::change::{NftRuleset, RuleSelection};
use super::listed::{ListedRule, RuleText};
use super::object::ChainId;
use super::rule::NftRule;
use super::seen::{ChainQueries, SeenObjects};
use super::set::SetElements;
use crate::error::NetfilterError;

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
