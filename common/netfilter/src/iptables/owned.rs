//! What exists of the chains of a container that a change may replace, and of the rules that jump to them.

use std::collections::BTreeSet;

use super::change::{ExistingChain, IptablesRuleset, OwnedChain};
use super::rule::{IptablesRule, Target};
use super::seen::SeenChains;
use cni_core::names::ChainName;

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
