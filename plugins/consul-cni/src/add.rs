//! ADD: makes the rules, and replaces earlier ones.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_model::plan::{Ns, Plan, Step};
use cni_plugin::journal::Journal;

use crate::config::{BEHIND, redirection};
use crate::rules::ruleset;

/// Redirects what the container sends and gets.
pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let prev_result = request.prev_result()?;
    let redirection = redirection(request, journal.host())?;
    if prev_result.as_ref().is_some_and(|result| result.ips.is_empty()) {
        return Err(fail!(InvalidConfig, "got no container IPs", details: "{BEHIND}"));
    }
    journal.host().enter(request.netns().unwrap_or_default())?;
    let mut plan = Plan::default();
    plan.owned(Step::EnsureRules { ns: Ns::Container, ruleset: ruleset(&redirection).into() });
    journal.apply(&plan)?;
    Ok(prev_result.unwrap_or_default())
}
