//! What exists of the chains of a container that a change may replace, and of the rules that lead to them.

use std::collections::BTreeSet;

use super::change::{ExistingChain, IptablesRuleset, OwnedChain};
use super::rule::{IptablesRule, Target};
use super::seen::SeenChains;
use crate::position::RulePosition;
use cni_core::names::ChainName;

/// The chains of a container that exist and may be replaced, with the rules that lead to them.
pub(super) struct OwnedState {
    existing: IptablesRuleset,
    /// Whether the rules that lead to the chains are those that are wanted, where they are wanted.
    are_entries_wanted: bool,
}

impl OwnedState {
    /// Looks at what was seen of the chains that `want` may replace. Only rules in chains that hold wanted rules count.
    pub(super) fn of(want: &IptablesRuleset, seen: &SeenChains) -> Self {
        let replaceable = || want.chains.iter().filter(|chain| is_replaceable(chain));
        let names: BTreeSet<&ChainName> = replaceable().map(|chain| &chain.name).collect();
        let parents: BTreeSet<&ChainName> = want.rules.iter().map(|rule| &rule.chain).collect();
        let leads_there = |rule: &&IptablesRule| matches!(&rule.target, Target::Jump(to) if names.contains(to));
        let is_entry = |rule: &&IptablesRule| parents.contains(&rule.chain) && leads_there(rule);
        let entries: Vec<IptablesRule> = seen.all_rules().filter(is_entry).cloned().collect();
        let wanted: Vec<IptablesRule> = want.rules.iter().filter(leads_there).map(IptablesRule::canonical).collect();
        let position = if are_first(&entries, &parents, seen) { RulePosition::Front } else { RulePosition::Back };
        let content = |chain: &OwnedChain| {
            let rules = seen.rules(&chain.name).cloned().collect();
            OwnedChain { name: chain.name.clone(), rules, existing: chain.existing }
        };
        Self {
            are_entries_wanted: are_same(&entries, &wanted, &parents)
                && (want.position == RulePosition::Back || position == RulePosition::Front),
            existing: IptablesRuleset {
                family: want.family,
                table: want.table,
                shared_chains: Vec::new(),
                shared: Vec::new(),
                chains: replaceable().filter(|chain| seen.exists(&chain.name)).map(content).collect(),
                rules: entries,
                position,
            },
        }
    }

    /// The rules that lead to the chains; none where they are what is wanted.
    pub(super) fn stale_entries(&self) -> Vec<IptablesRule> {
        if self.are_entries_wanted { Vec::new() } else { self.existing.rules.clone() }
    }

    /// All of it, as something that can be wanted.
    pub(super) fn into_ruleset(self) -> IptablesRuleset {
        self.existing
    }
}

/// Whether a chain that exists is replaced.
const fn is_replaceable(chain: &OwnedChain) -> bool {
    match chain.existing {
        ExistingChain::Replace | ExistingChain::ReplaceInOrder => true,
        ExistingChain::Merge => false,
    }
}

fn of_chain<'a>(rules: &'a [IptablesRule], chain: &'a ChainName) -> impl Iterator<Item = &'a IptablesRule> {
    rules.iter().filter(move |rule| rule.chain == *chain)
}

/// Whether no other rule comes before some rules, in any of their chains.
fn are_first(rules: &[IptablesRule], parents: &BTreeSet<&ChainName>, seen: &SeenChains) -> bool {
    parents.iter().all(|parent| of_chain(rules, parent).eq(seen.rules(parent).take(of_chain(rules, parent).count())))
}

/// Whether each chain holds the same of some rules as of others, in the same order.
fn are_same(found: &[IptablesRule], wanted: &[IptablesRule], parents: &BTreeSet<&ChainName>) -> bool {
    parents.iter().all(|parent| of_chain(found, parent).eq(of_chain(wanted, parent)))
}
