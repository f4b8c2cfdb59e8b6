//! What is missing of a container's rules: CHECK reports it, and a repair puts it back.

use std::collections::HashSet;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_netfilter::iptables::{Iptables, IptablesError, IptablesRule, IptablesRuleset};
use cni_netfilter::{Backend, MissingRule, Ruleset};
use cni_plugin::host::Host;
use cni_plugin::plan::Ns;

use crate::config::Config;
use crate::{nftables, plan};

/// Up to so many rules are asked for one by one. The nft flavour of iptables answers each time by a walk
/// through the chain: 6000 rules take it more than half a minute, and one listing of them a tenth of a second.
const FEW: usize = 200;

/// The first rule that is not there.
#[derive(Debug, thiserror::Error)]
#[error("could not check {} dnat: {}", family.word(), words(missing))]
pub struct Missing {
    /// Of which addresses.
    family: Family,
    /// The rule.
    missing: MissingRule,
}

impl Failure for Missing {
    fn code(&self) -> Code {
        Code::CheckFailed
    }

    fn details(&self) -> String {
        self.missing.proof()
    }
}

impl Missing {
    /// What a repair makes, as an administrator would look for it.
    pub fn made(&self) -> String {
        self.missing.to_string()
    }
}

/// The rule in the reference's words, without its chain in those of the rule itself.
fn words(missing: &MissingRule) -> String {
    match missing {
        MissingRule::Iptables { family: _, table, rule } => {
            let specification = rule.specification();
            let (chain, words) = specification.split_once(' ').unwrap_or((&specification, ""));
            format!("rule [{words}] in chain {chain} not found in table {table}")
        }
        MissingRule::Nftables(rule) => format!("rule [{rule}] not found in chain {}", rule.chain),
        MissingRule::Elements(elements) => format!("element [{elements}] not found"),
    }
}
/// Looks for what a container needs in the family of its address: the first rule that is missing, unless the
/// container has all that the reference makes.
///
/// # Errors
/// When the packet filter cannot be read.
pub fn observe_missing(
    host: &mut dyn Host,
    config: &Config,
    at: &Attachment,
    target: Cidr,
) -> Result<Option<Missing>, Error> {
    let family = target.family();
    let missing = match config.backend {
        Backend::Iptables => {
            let wanted = without_listed(host.netfilter(Ns::Host)?.iptables(), plan::ensure(config, at, target))?;
            Ruleset::from(wanted).missing(host.netfilter(Ns::Host)?)?
        }
        Backend::Nftables => nftables::observe_missing(host, config, at, target)?,
    };
    Ok(missing.map(|missing| Missing { family, missing }))
}

/// Leaves out what a listing of the container's own chain shows, if that has many rules.
fn without_listed(iptables: &mut dyn Iptables, mut want: IptablesRuleset) -> Result<IptablesRuleset, IptablesError> {
    if let Some(chain) = want.chain.as_mut().filter(|chain| chain.rules.len() > FEW) {
        let listed = iptables.list(want.family, want.table, &chain.name)?.unwrap_or_default();
        let listed: HashSet<IptablesRule> = listed.into_iter().collect();
        chain.rules.retain(|rule| !listed.contains(&rule.canonical()));
    }
    Ok(want)
}
