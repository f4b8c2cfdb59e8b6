//! The firewall plugin: lets a container's traffic through the host's filter.
//!
//! It is chained behind a plugin that assigns addresses, passes that plugin's result through, and never
//! enters the container. `config.rs` judges the configuration, `keepers.rs` finds out who keeps the rules,
//! `nftables.rs` knows the plugin's own table, `repair.rs` looks for what others have removed, and `plan.rs`
//! decides; what is done is in its plans.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure, Failures};
use cni_core::family::Family;
use cni_core::firewall::{Ensure, Rule, Table, missing, verify_available};
use cni_core::firewalld::Zone;
use cni_core::host::Host;
use cni_core::journal::Journal;
use cni_core::keeper::Keeper;
use cni_core::nftables::{self as nf, Elements, NftablesError};
use cni_core::plan::Plan;
use cni_core::repair::Lack;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::run::Plugin;
use cni_core::version::Version;

use crate::config::{Config, IngressPolicy, Keys};
use crate::plan::Wanted;

mod config;
mod keepers;
mod nftables;
mod plan;
mod repair;

/// The plugin.
pub struct Firewall;

/// What the plugin cannot do, or finds.
#[derive(Debug, thiserror::Error)]
enum FirewallError {
    #[error("missing prevResult from earlier plugin")]
    NoPrevResult,
    #[error("expected {}rule [{}] not found", if *shared { format!("{} ", rule.chain) } else { String::new() }, words(rule))]
    Missing { family: Family, rule: Rule, shared: bool },
    #[error("expected {} rule [{rule}] not found", rule.chain)]
    MissingNative { rule: nf::Rule },
    #[error("expected element [{elements}] not found")]
    MissingElements { elements: Elements },
    #[error("failed to find the address {address} in {zone} zone")]
    NoSource { zone: Zone, address: Cidr },
    #[error("backend firewalld is not available")]
    NoFirewalld,
    #[error("backend nftables is not available")]
    NoNftables(#[source] NftablesError),
}

impl Failure for FirewallError {
    fn code(&self) -> Code {
        match self {
            Self::NoPrevResult => Code::InvalidConfig,
            Self::Missing { .. }
            | Self::MissingNative { .. }
            | Self::MissingElements { .. }
            | Self::NoSource { .. } => Code::CheckFailed,
            Self::NoFirewalld | Self::NoNftables(_) => Code::NotAvailable,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoPrevResult => "chain firewall behind the plugin that assigns addresses".to_owned(),
            Self::Missing { family, rule, shared: _ } => {
                format!("this fails: {} -t filter -C {}", family.iptables(), rule.specification())
            }
            Self::MissingNative { rule } => format!("this does not show it: nft list chain {}", rule.chain),
            Self::MissingElements { elements } => format!("this fails: nft get element {elements}"),
            Self::NoNftables(source) => format!("{source}: {}", source.details()),
            Self::NoSource { zone, address } => {
                format!("this fails: firewall-cmd --zone={zone} --query-source={address}")
            }
            Self::NoFirewalld => "firewalld does not answer on the system bus".to_owned(),
        }
    }
}

/// The words of a rule, as the reference prints them: without its chain, and without quotes.
fn words(rule: &Rule) -> String {
    let specification = rule.specification().replace('"', "");
    specification.split_once(' ').map(|(_, words)| words.to_owned()).unwrap_or_default()
}

impl Plugin for Firewall {
    fn kind(&self) -> &'static str {
        "firewall"
    }

    fn versions(&self) -> &'static [Version] {
        Version::SINCE_0_4_0
    }

    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::try_from(request.decode::<Keys>()?)?;
        let prev_result = request.prev_result()?.ok_or(FirewallError::NoPrevResult)?;
        if prev_result.ips.is_empty() {
            return Ok(prev_result);
        }
        if let Some(keeper) = keepers::choose(&config, journal.host()) {
            journal.apply(&plan::add(&config, &keeper, &request.attachment()?, &prev_result)?)?;
        }
        Ok(prev_result)
    }

    /// What is to go follows from the addresses; the keys say at most where to look for it.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let held = keepers::observe_held(request, &request.attachment()?, host)?;
        carry_out(host, &plan::remove(&held))
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::try_from(request.decode::<Keys>()?)?;
        let prev_result = request.prev_result()?.ok_or(FirewallError::NoPrevResult)?;
        let addresses = plan::addresses(&prev_result);
        for (keeper, addresses) in keepers::observe_kept(&config, &request.attachment()?, &addresses, host)? {
            if let Keeper::Firewalld(zone) = &keeper {
                verify_sources(zone, &addresses, host)?;
            }
            for want in plan::wanted(&config, &keeper, &addresses, &prev_result)? {
                match want {
                    Wanted::Iptables(want) => verify_rules(&want, host)?,
                    Wanted::Nftables(want) => verify_nftables(&want, host)?,
                }
            }
        }
        Ok(())
    }

    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::try_from(request.decode::<Keys>()?)?;
        let keeper = keepers::choose(&config, host);
        if matches!(keeper, Some(Keeper::Firewalld(_))) && !host.firewalld().is_running() {
            return Err(FirewallError::NoFirewalld.into());
        }
        match keeper {
            Some(Keeper::Nftables) => nftables::verify_available(host).map_err(FirewallError::NoNftables)?,
            Some(Keeper::Firewalld(_)) if config.policy == IngressPolicy::Open => {}
            Some(Keeper::Iptables | Keeper::Firewalld(_)) => verify_available(host.tables(), Table::Filter)?,
            None => {}
        }
        Ok(())
    }

    /// The rules name no container, so what was claimed tells whose they are.
    fn gc(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let valid = request.valid_attachments()?;
        let mut claims = host.addresses_owned_in(&request.network)?;
        claims.retain(|(_, owner)| !valid.contains(owner.container.as_str(), Some(owner.ifname.as_str())));
        let held = keepers::observe_claimed(claims, host)?;
        carry_out(host, &plan::remove(&held))
    }

    fn lacks(&self, request: &Request, host: &mut dyn Host) -> Result<Vec<Lack>, Error> {
        repair::lacks(request, host)
    }
}

fn verify_sources(zone: &Zone, addresses: &[IpAddr], host: &mut dyn Host) -> Result<(), Error> {
    for address in addresses {
        if !host.firewalld().has_source(zone, *address)? {
            return Err(FirewallError::NoSource { zone: zone.clone(), address: Cidr::host(*address) }.into());
        }
    }
    Ok(())
}

fn verify_rules(want: &Ensure, host: &mut dyn Host) -> Result<(), Error> {
    if let Some(rule) = missing(host.tables(), want)? {
        let (rule, shared) = (rule.clone(), !want.rules.contains(rule));
        return Err(FirewallError::Missing { family: want.family, rule, shared }.into());
    }
    Ok(())
}

fn verify_nftables(want: &nf::Ensure, host: &mut dyn Host) -> Result<(), Error> {
    if let Some(rule) = nf::missing(host.nftables(), want)? {
        return Err(FirewallError::MissingNative { rule: rule.clone() }.into());
    }
    if let Some(elements) = nf::missing_elements(host.nftables(), want)? {
        return Err(FirewallError::MissingElements { elements }.into());
    }
    Ok(())
}

/// Carries out every plan, each up to its first failure. The first failure is reported, with notes of the others.
fn carry_out(host: &mut dyn Host, plans: &[Plan]) -> Result<(), Error> {
    let mut failures = Failures::default();
    for plan in plans {
        failures.keep(plan.steps().iter().try_for_each(|(_, step)| host.apply(step).map(|_| ())));
    }
    failures.into_result()
}

#[cfg(test)]
mod tests;
