//! What is missing of an attachment's rules, whoever keeps them: CHECK reports it, and a repair puts it back.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_netfilter::firewalld::Zone;
use cni_netfilter::{MissingRule, Ruleset};
use cni_plugin::host::Host;
use cni_plugin::keeper::Keeper;
use cni_plugin::plan::{Ns, Sharing};

/// The first thing that is not there, in the words of the reference where it has some.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// A rule, or elements of a set.
    #[error("expected {} not found", words(missing, *sharing))]
    Rule {
        /// Which.
        missing: MissingRule,
        /// Whose it is.
        sharing: Sharing,
    },
    /// A source of a zone of firewalld.
    #[error("failed to find the address {address} in {zone} zone")]
    Source {
        /// The zone.
        zone: Zone,
        /// The address.
        address: Cidr,
    },
}

impl Failure for Missing {
    fn code(&self) -> Code {
        match self {
            Self::Rule { .. } | Self::Source { .. } => Code::CheckFailed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Rule { missing, sharing: _ } => missing.proof(),
            Self::Source { zone, address } => {
                format!("this fails: firewall-cmd --zone={zone} --query-source={address}")
            }
        }
    }
}

impl Missing {
    /// What a repair makes, as an administrator would look for it.
    pub fn made(&self) -> String {
        match self {
            Self::Rule { missing, sharing: _ } => missing.to_string(),
            Self::Source { zone, address } => format!("firewalld source {address} of zone {zone}"),
        }
    }
}

/// The rule, as the reference prints it: its chain if it is everybody's, and no quotes.
fn words(missing: &MissingRule, sharing: Sharing) -> String {
    match missing {
        MissingRule::Iptables { rule, .. } => {
            let specification = rule.specification().replace('"', "");
            let (chain, words) = specification.split_once(' ').unwrap_or((&specification, ""));
            match sharing {
                Sharing::Shared => format!("{chain} rule [{words}]"),
                Sharing::Owned | Sharing::Within => format!("rule [{words}]"),
            }
        }
        MissingRule::Nftables(rule) => format!("{} rule [{rule}]", rule.chain),
        MissingRule::Elements(elements) => format!("element [{elements}]"),
    }
}

/// Whether other containers have a rule as well.
fn sharing(wanted: &Ruleset, missing: &MissingRule) -> Sharing {
    match (wanted, missing) {
        (Ruleset::Iptables(want), MissingRule::Iptables { rule, .. }) if want.rules.contains(rule) => Sharing::Owned,
        (Ruleset::Iptables(_) | Ruleset::Nftables(_), _) => Sharing::Shared,
    }
}

/// Looks for the sources and the rules that a keeper is to have for some addresses.
///
/// # Errors
/// When they cannot be looked for.
pub fn observe_missing(
    keeper: &Keeper,
    addresses: &[IpAddr],
    wanted: &[Ruleset],
    host: &mut dyn Host,
) -> Result<Option<Missing>, Error> {
    if let Keeper::Firewalld(zone) = keeper {
        for address in addresses {
            if !host.firewalld().has_source(zone, *address)? {
                return Ok(Some(Missing::Source { zone: zone.clone(), address: Cidr::host(*address) }));
            }
        }
    }
    for wanted in wanted {
        if let Some(missing) = wanted.missing(host.netfilter(Ns::Host)?)? {
            return Ok(Some(Missing::Rule { sharing: sharing(wanted, &missing), missing }));
        }
    }
    Ok(None)
}
