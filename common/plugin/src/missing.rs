//! What others have removed of an attachment's rules, and how it comes back.
//!
//! Packet filters are reloaded and flushed by those who know nothing of containers, and CNI has no verb for
//! what follows. A plugin looks, as in CHECK, for the rules that its ADD has made, and for each part of them
//! that is not complete tells a [`MissingPart`]. Looking changes nothing; the administrator's tool carries the
//! plans out. Only rules count: a link, an address or a lease that is gone takes an ADD.

use crate::host::Host;
use cni_core::error::Error;
use cni_model::plan::{Ns, Plan, Step};
use cni_netfilter::Ruleset;

/// A part of an attachment's rules that is not complete.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingPart {
    /// The first thing that is missing, as an administrator would look for it.
    pub missing: String,
    /// What makes the part complete: steps of ADD.
    pub plan: Plan,
}

impl MissingPart {
    /// Looks for rules that one step of ADD makes; `None` when all exist.
    ///
    /// # Errors
    /// When the packet filter cannot be read.
    pub fn find(ns: Ns, ruleset: impl Into<Ruleset>, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let ruleset = ruleset.into();
        let Some(missing) = ruleset.missing(host.netfilter(ns)?)? else { return Ok(None) };
        let mut plan = Plan::default();
        plan.owned(Step::EnsureRules { ns, ruleset });
        Ok(Some(Self { missing: missing.to_string(), plan }))
    }
}
