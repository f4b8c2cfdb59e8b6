//! What exists of the chains of a container that a change may replace, and of the rules that jump to them.

use std::collections::BTreeSet;

use super::change::{ExistingChain, IptablesRuleset, OwnedChain};
use super::rule::{IptablesRule, Target};
use super::seen::SeenChains;
use cni_core::names::ChainName;

/// The chains of a container that exist and may be replaced, with the rules that jump to them.
pub(super) struct OwnedState {
    existing: IptablesRuleset,
    /// The rules that jump to the chains and do not keep their positions.
    stale: Vec<IptablesRule>,
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
        let content = |chain: &OwnedChain| {
            let rules = seen.rules(&chain.name).cloned().collect();
            OwnedChain { name: chain.name.clone(), rules, existing: chain.existing }
        };
        Self {
            stale: stale_entries(want, &entries, &wanted, &parents),
            existing: IptablesRuleset {
                family: want.family,
                table: want.table,
                shared_chains: Vec::new(),
                shared: Vec::new(),
                chains: replaceable().filter(|chain| seen.exists(&chain.name)).map(content).collect(),
                rules: entries,
                position: want.position.clone(),
            },
        }
    }

    /// The rules that jump to the chains and are removed.
    pub(super) fn stale_entries(&self) -> Vec<IptablesRule> {
        self.stale.clone()
    }

    /// All of it, as something that can be wanted.
    pub(super) fn into_ruleset(self) -> IptablesRuleset {
        self.existing
    }
}

/// Whether an existing chain is replaced.
const fn is_replaceable(chain: &OwnedChain) -> bool {
    match chain.existing {
        ExistingChain::Replace | ExistingChain::ReplaceInOrder => true,
        ExistingChain::Merge => false,
    }
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
