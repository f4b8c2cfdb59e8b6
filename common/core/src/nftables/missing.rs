//! Looks whether rules are there, and changes nothing.

use super::backend::{Nftables, NftablesError};
use super::change::Ensure;
use super::rule::Rule;
use super::seen::Seen;

/// The first wanted rule that is not there; `None` when all are. Where a rule stands in its chain, what
/// else stands there, and how many copies there are, does not matter.
///
/// A rule with a user's own words counts as there, too, when its chain holds one that cannot be read back.
///
/// # Errors
/// When nf_tables cannot be read.
pub fn missing<'a>(nftables: &mut dyn Nftables, want: &'a Ensure) -> Result<Option<&'a Rule>, NftablesError> {
    let seen = Seen::observe(nftables, want.all_rules().map(|rule| &rule.chain))?;
    let is_there = |rule: &Rule| {
        let found = seen.rules(&rule.chain);
        found.iter().any(|found| found.is(rule) || (rule.has_words() && found.expressions.is_none()))
    };
    Ok(want.all_rules().find(|rule| !is_there(rule)))
}
