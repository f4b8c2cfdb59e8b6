//! What is missing of a container's rules: CHECK reports it, and a repair puts it back.

use std::collections::HashSet;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_netfilter::iptables::{Iptables, IptablesError, IptablesRule, IptablesRuleset, missing};
use cni_netfilter::nftables as nf;
use cni_plugin::host::Host;
use cni_plugin::repair::native;

use crate::config::{Backend, Config};
use crate::{nftables, plan};

/// Up to so many rules are asked for one by one. The nft flavour of iptables answers each time by a walk
/// through the chain: 6000 rules take it more than half a minute, and one listing of them a tenth of a second.
const FEW: usize = 200;

/// The first rule that is not there.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// Of iptables.
    #[error("could not check {} dnat: rule [{}] in chain {} not found in table nat", family.word(), words(rule), rule.chain)]
    Rule {
        /// Of which table.
        family: Family,
        /// The rule.
        rule: IptablesRule,
    },
    /// Of nf_tables.
    #[error("could not check {} dnat: rule [{rule}] not found in chain {}", family.word(), rule.chain)]
    Native {
        /// Of which table.
        family: Family,
        /// The rule.
        rule: nf::NftRule,
    },
}

impl Failure for Missing {
    fn code(&self) -> Code {
        match self {
            Self::Rule { .. } | Self::Native { .. } => Code::CheckFailed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Rule { family, rule } => {
                format!("this fails: {} -t nat -C {}", family.iptables(), rule.specification())
            }
            Self::Native { family: _, rule } => format!("this does not show it: nft list chain {}", rule.chain),
        }
    }
}

impl Missing {
    /// What a repair makes, as an administrator would look for it.
    pub fn made(&self) -> String {
        match self {
            Self::Rule { family, rule } => format!("{} -t nat {rule}", family.iptables()),
            Self::Native { family: _, rule } => native(rule),
        }
    }
}

/// The words of a rule, without its chain.
fn words(rule: &IptablesRule) -> String {
    let specification = rule.specification();
    specification.split_once(' ').map(|(_, words)| words.to_owned()).unwrap_or_default()
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
    Ok(match config.backend {
        Backend::Iptables => {
            let wanted = without_listed(host.tables(), plan::ensure(config, at, target))?;
            let family = wanted.family;
            missing(host.tables(), &wanted)?.map(|rule| Missing::Rule { family, rule: rule.clone() })
        }
        Backend::Nftables => nftables::observe_missing(host, config, at, target)?
            .map(|rule| Missing::Native { family: target.family(), rule }),
    })
}

/// Leaves out what a listing of the container's own chain shows, if that has many rules.
fn without_listed(tables: &mut dyn Iptables, mut want: IptablesRuleset) -> Result<IptablesRuleset, IptablesError> {
    if let Some(chain) = want.chain.as_mut().filter(|chain| chain.rules.len() > FEW) {
        let listed = tables.list(want.family, want.table, &chain.name)?.unwrap_or_default();
        let listed: HashSet<IptablesRule> = listed.into_iter().collect();
        chain.rules.retain(|rule| !listed.contains(&rule.canonical()));
    }
    Ok(want)
}
