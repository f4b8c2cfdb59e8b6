//! Rules of an attachment that are missing, and the plan that restores them.
//!
//! Other programs reload and flush packet filters, and CNI has no command to restore the rules. A plugin looks for the
//! rules that its ADD made, as in CHECK, and returns a [`MissingPart`] for each part that is not complete. Looking
//! changes nothing; the administrator's tool carries out the plans. Only rules and traffic filters are restored: a
//! missing link, address or lease takes an ADD.

use crate::host::Host;
use crate::lock::LockName;
use cni_core::error::Error;
use cni_model::plan::{Ns, Plan, Step};
use cni_netfilter::Ruleset;

/// A part of an attachment's rules that is not complete.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingPart {
    /// The first missing thing, in the words that an administrator would use to look for it.
    pub missing: String,
    /// The steps of ADD that restore the part.
    pub plan: Plan,
}

/// What ADD records about an attachment and is not recorded, although its rules are there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MissingRecords {
    /// The locks under which it must be looked for again before the plan is carried out.
    pub locks: Vec<LockName>,
    /// The steps that record it.
    pub plan: Plan,
}

impl MissingPart {
    /// Looks for rules that one step of ADD makes; `None` when all exist.
    pub fn find(ns: Ns, ruleset: impl Into<Ruleset>, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let ruleset = ruleset.into();
        let Some(missing) = ruleset.missing(host.netfilter(ns)?)? else { return Ok(None) };
        let mut plan = Plan::default();
        plan.owned(Step::EnsureRules { ns, ruleset });
        Ok(Some(Self { missing: missing.to_string(), plan }))
    }
}
