//! What others have removed of an attachment's rules, and how it comes back.
//!
//! Packet filters are reloaded and flushed by those who know nothing of containers, and CNI has no verb for
//! what follows. A plugin looks, as in CHECK, for the rules that its ADD has made, and for each part of them
//! that is not complete tells a [`Lack`]. Looking changes nothing; the administrator's tool carries the plans
//! out. Only rules count: a link, an address or a lease that is gone takes an ADD.

use crate::host::Host;
use crate::plan::{Plan, Step};
use cni_core::error::Error;
use cni_netfilter::iptables;
use cni_netfilter::nftables;

/// A part of an attachment's rules that is not complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Lack {
    /// The first thing that is missing, as an administrator would look for it.
    pub missing: String,
    /// What makes the part complete: steps of ADD.
    pub plan: Plan,
}

impl Lack {
    /// Looks for rules of iptables that one step makes.
    ///
    /// # Errors
    /// When the packet filter cannot be read.
    pub fn of_rules(want: iptables::IptablesRuleset, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let missing = iptables::missing(host.tables(), &want)?;
        let told = |rule| format!("{} -t {} {rule}", want.family.iptables(), want.table);
        Ok(missing.map(told).map(|missing| Self::owned(missing, Step::EnsureRules(want))))
    }

    /// Looks for rules and elements of nf_tables that one step makes.
    ///
    /// # Errors
    /// When nf_tables cannot be read.
    pub fn of_nftables(want: nftables::NftRuleset, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let missing = match nftables::missing(host.nftables(), &want)? {
            Some(rule) => Some(native(rule)),
            None => nftables::missing_elements(host.nftables(), &want)?.map(|elements| element(&elements)),
        };
        Ok(missing.map(|missing| Self::owned(missing, Step::EnsureNftables(want))))
    }

    fn owned(missing: String, step: Step) -> Self {
        let mut plan = Plan::default();
        plan.owned(step);
        Self { missing, plan }
    }
}

/// A rule of nf_tables with its chain.
pub fn native(rule: &nftables::NftRule) -> String {
    format!("nft {} {rule}", rule.chain)
}

/// Elements of a set with it.
pub fn element(elements: &nftables::Elements) -> String {
    format!("nft element {elements}")
}
