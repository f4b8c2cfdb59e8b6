//! Looks whether rules are there, and changes nothing.

use super::backend::Iptables;
use super::batch::{Batch, BatchLine};
use super::change::IptablesRuleset;
use super::error::{BatchError, IptablesError};
use super::rule::IptablesRule;
use super::seen::SeenChains;

/// The first wanted rule that is not there; `None` when all are. Where a rule stands in its chain, what
/// else stands there, and how many copies there are, does not matter.
///
/// A batch of conditions alone changes nothing: one is enough when all hold. Only then are chains read,
/// to say which does not.
///
/// # Errors
/// When the packet filter cannot be read.
pub fn missing<'a>(
    tables: &mut dyn Iptables,
    want: &'a IptablesRuleset,
) -> Result<Option<&'a IptablesRule>, IptablesError> {
    let rules: Vec<&IptablesRule> = want.all_rules().collect();
    if rules.is_empty() || holds(tables, want, &rules)? {
        return Ok(None);
    }
    let seen = SeenChains::observe(tables, want.family, want.table, rules.iter().map(|rule| &rule.chain))?;
    for rule in rules {
        // A user's own words may read differently in a listing, so only the condition can tell.
        if seen.copies(rule) == 0 && !holds(tables, want, &[rule])? {
            return Ok(Some(rule));
        }
    }
    Ok(None)
}

fn holds(tables: &mut dyn Iptables, want: &IptablesRuleset, rules: &[&IptablesRule]) -> Result<bool, IptablesError> {
    let ops = rules.iter().map(|&rule| BatchLine::Require(rule.clone())).collect();
    match tables.commit(&Batch { family: want.family, table: want.table, ops }) {
        Ok(()) => Ok(true),
        Err(BatchError::Refused(_)) => Ok(false),
        Err(BatchError::Failed(error)) => Err(error),
    }
}
