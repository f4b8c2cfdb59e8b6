//! Checks whether rules and elements exist, and changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::backend::Nftables;
use super::change::{NftRuleset, Which};
use super::error::NftablesError;
use super::listed::{ListedRule, RuleText};
use super::object::ChainId;
use super::rule::NftRule;
use super::seen::{Questions, SeenObjects};
use super::set::SetElements;

/// The first wanted rule that does not exist; `None` when all exist. Where a rule is in its chain, what
/// else is in the chain, and how many copies of the rule exist, does not matter.
///
/// A rule with a user's own words counts as there, too, when its chain holds one that cannot be read back.
///
/// # Errors
/// When nf_tables cannot be read.
pub fn missing<'a>(nftables: &mut dyn Nftables, want: &'a NftRuleset) -> Result<Option<&'a NftRule>, NftablesError> {
    let mut questions = Questions::default();
    for rule in want.all_rules() {
        if rule.has_words() {
            questions.whole(&rule.chain);
        } else {
            questions.these(&rule.chain, [Which::Listed(vec![rule.clone()])]);
        }
    }
    let seen = SeenObjects::observe(nftables, &questions, &[])?;
    let chains: BTreeSet<&ChainId> = want.all_rules().map(|rule| &rule.chain).collect();
    let found: BTreeMap<&ChainId, Found> =
        chains.into_iter().map(|chain| (chain, Found::of(chain, seen.rules(chain)))).collect();
    let is_there = |rule: &NftRule| found.get(&rule.chain).is_some_and(|found| found.has(rule));
    Ok(want.all_rules().find(|rule| !is_there(rule)))
}

/// The missing elements of the first set that does not contain all that are wanted; `None` when nothing is missing.
///
/// # Errors
/// When nf_tables cannot be read.
pub fn missing_elements(nftables: &mut dyn Nftables, want: &NftRuleset) -> Result<Option<SetElements>, NftablesError> {
    let seen = SeenObjects::observe(nftables, &Questions::default(), &want.elements)?;
    let mut absent = want.elements.iter().map(|elements| seen.divide(elements).1);
    Ok(absent.find(|absent| !absent.addresses.is_empty()))
}

/// The rules of a chain as text, so that each is looked up and not compared with all.
struct Found {
    texts: HashSet<RuleText>,
    has_unreadable: bool,
}

impl Found {
    fn of(chain: &ChainId, rules: &[ListedRule]) -> Self {
        let has_unreadable = rules.iter().any(|rule| rule.expressions.is_none());
        Self { texts: rules.iter().filter_map(|rule| rule.text(chain.table.family)).collect(), has_unreadable }
    }

    fn has(&self, rule: &NftRule) -> bool {
        self.texts.contains(&RuleText::of(rule)) || (rule.has_words() && self.has_unreadable)
    }
}
