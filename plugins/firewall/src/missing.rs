//! What is missing of an attachment's rules, whoever keeps them: CHECK reports it, and a repair puts it back.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_netfilter::firewalld::Zone;
use cni_netfilter::iptables::{IptablesRule, missing};
use cni_netfilter::nftables::{self as nf, Elements};
use cni_plugin::host::Host;
use cni_plugin::keeper::Keeper;
use cni_plugin::repair::{element, native};

use crate::plan::Wanted;

/// The first thing that is not there, in the words of the reference where it has some.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// A rule of iptables.
    #[error("expected {}rule [{}] not found", if *shared { format!("{} ", rule.chain) } else { String::new() }, words(rule))]
    Rule {
        /// Of which table.
        family: Family,
        /// The rule.
        rule: IptablesRule,
        /// Whether other containers have it as well.
        shared: bool,
    },
    /// A rule of nf_tables.
    #[error("expected {} rule [{rule}] not found", rule.chain)]
    Native {
        /// The rule.
        rule: nf::NftRule,
    },
    /// Elements of a set.
    #[error("expected element [{elements}] not found")]
    Elements {
        /// The elements.
        elements: Elements,
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
            Self::Rule { .. } | Self::Native { .. } | Self::Elements { .. } | Self::Source { .. } => Code::CheckFailed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Rule { family, rule, shared: _ } => {
                format!("this fails: {} -t filter -C {}", family.iptables(), rule.specification())
            }
            Self::Native { rule } => format!("this does not show it: nft list chain {}", rule.chain),
            Self::Elements { elements } => format!("this fails: nft get element {elements}"),
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
            Self::Rule { family, rule, shared: _ } => format!("{} -t filter {rule}", family.iptables()),
            Self::Native { rule } => native(rule),
            Self::Elements { elements } => element(elements),
            Self::Source { zone, address } => format!("firewalld source {address} of zone {zone}"),
        }
    }
}

/// The words of a rule, as the reference prints them: without its chain, and without quotes.
fn words(rule: &IptablesRule) -> String {
    let specification = rule.specification().replace('"', "");
    specification.split_once(' ').map(|(_, words)| words.to_owned()).unwrap_or_default()
}

/// Looks for the sources and the rules that a keeper is to have for some addresses.
///
/// # Errors
/// When they cannot be looked for.
pub fn observe_missing(
    keeper: &Keeper,
    addresses: &[IpAddr],
    wanted: &[Wanted],
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
        let found = match wanted {
            Wanted::Iptables(want) => missing(host.tables(), want)?.map(|rule| Missing::Rule {
                family: want.family,
                rule: rule.clone(),
                shared: !want.rules.contains(rule),
            }),
            Wanted::Nftables(want) => missing_natively(want, host)?,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn missing_natively(want: &nf::NftRuleset, host: &mut dyn Host) -> Result<Option<Missing>, Error> {
    if let Some(rule) = nf::missing(host.nftables(), want)? {
        return Ok(Some(Missing::Native { rule: rule.clone() }));
    }
    Ok(nf::missing_elements(host.nftables(), want)?.map(|elements| Missing::Elements { elements }))
}
