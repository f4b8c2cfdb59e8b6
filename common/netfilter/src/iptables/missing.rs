//! Checks whether rules exist, and changes nothing.

use std::collections::BTreeMap;

use super::change::{ExistingChain, IptablesRuleset, OwnedChain};
use super::ensure::{FoundRule, out_of_order, unreached};
use super::rule::IptablesRule;
use super::seen::SeenChains;
use super::transport::{Batch, BatchLine, Iptables};
use crate::error::NetfilterError;
use cni_core::names::ChainName;

/// The first wanted rule that does not exist, or that is after a rule that it must precede or that drops all packets; `None` if all are in order.
/// Other rules of the chain, the rule's position otherwise, and the number of its copies do not matter.
///
/// A batch that consists of conditions changes nothing; a single one is enough if all conditions hold. Otherwise the
/// chains are read to find the missing rule. They are read first if many rules of one chain are wanted.
pub fn missing<'a>(tables: &mut dyn Iptables, want: &'a IptablesRuleset) -> FoundRule<'a> {
    let rules = without_listed(tables, want)?;
    if rules.is_empty() || holds(tables, want, &rules)? {
        return disordered(tables, want);
    }
    let places = SeenChains::find(tables, want.family, want.table, rules.iter().copied())?;
    for rule in rules {
        // A user's own text may look different in a listing, so only the condition can decide.
        if places.copies(rule) == 0 && !holds(tables, want, &[rule])? {
            return Ok(Some(rule));
        }
    }
    disordered(tables, want)
}

fn disordered<'a>(tables: &mut dyn Iptables, want: &'a IptablesRuleset) -> FoundRule<'a> {
    if let Some(rule) = out_of_order(tables, want)? {
        return Ok(Some(rule));
    }
    if let Some(rule) = unreached(tables, want)? {
        return Ok(Some(rule));
    }
    out_of_order_in_own(tables, want)
}

/// The first rule of a chain of the container's that does not come behind those that are wanted before it. Chains are
/// read only where their order counts.
fn out_of_order_in_own<'a>(tables: &mut dyn Iptables, want: &'a IptablesRuleset) -> FoundRule<'a> {
    let has_order = |chain: &&OwnedChain| chain.existing == ExistingChain::ReplaceInOrder && chain.rules.len() > 1;
    for chain in want.chains.iter().filter(has_order) {
        let listed = tables.list(want.family, want.table, &chain.name)?.unwrap_or_default();
        let mut rest = listed.iter();
        let mut comes_next = |wanted: &IptablesRule| rest.any(|rule| *rule == *wanted);
        if let Some(at) = chain.rules.iter().map(IptablesRule::canonical).position(|wanted| !comes_next(&wanted)) {
            return Ok(chain.rules.get(at));
        }
    }
    Ok(None)
}

/// Up to so many rules of a chain are asked for by a batch. The nft flavour of iptables answers each condition by a
/// walk through the chain: 6000 rules take it more than half a minute, and one listing of them a tenth of a second.
const FEW: usize = 200;

/// The wanted rules that still have to be checked: those of chains with many wanted rules are looked up in a listing.
fn without_listed<'a>(
    tables: &mut dyn Iptables,
    want: &'a IptablesRuleset,
) -> Result<Vec<&'a IptablesRule>, NetfilterError> {
    let mut wanted: BTreeMap<&ChainName, usize> = BTreeMap::new();
    want.all_rules().for_each(|rule| *wanted.entry(&rule.chain).or_default() += 1);
    let crowded = wanted.into_iter().filter(|(_, count)| *count > FEW).map(|(chain, _)| chain);
    let seen = SeenChains::observe(tables, want.family, want.table, crowded)?;
    Ok(want.all_rules().filter(|rule| seen.copies(rule) == 0).collect())
}

fn holds(tables: &mut dyn Iptables, want: &IptablesRuleset, rules: &[&IptablesRule]) -> Result<bool, NetfilterError> {
    let ops = rules.iter().map(|&rule| BatchLine::Require(rule.clone())).collect();
    match tables.commit(&Batch { family: want.family, table: want.table, ops }) {
        Err(error) if error.is_refusal() => Ok(false),
        done => done.map(|()| true),
    }
}
