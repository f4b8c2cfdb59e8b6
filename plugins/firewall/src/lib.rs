//! The firewall plugin: lets a container's traffic through the host's filter.
//!
//! It is chained behind a plugin that assigns addresses, passes that plugin's result through, and never
//! enters the container. `config.rs` judges the configuration and `plan.rs` decides; what is done is in
//! their plans.

use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::firewall::{Rule, missing};
use cni_core::host::Host;
use cni_core::journal::Journal;
use cni_core::names::Attachment;
use cni_core::plan::Plan;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::run::Plugin;
use cni_core::version::Version;

use crate::config::{Config, Keys};

mod config;
mod plan;

/// The plugin.
pub struct Firewall;

/// What the plugin cannot do, or finds.
#[derive(Debug, thiserror::Error)]
enum FirewallError {
    #[error("missing prevResult from earlier plugin")]
    NoPrevResult,
    #[error("expected {}rule [{}] not found", if *shared { format!("{} ", rule.chain) } else { String::new() }, words(rule))]
    Missing { family: Family, rule: Rule, shared: bool },
}

impl Failure for FirewallError {
    fn code(&self) -> Code {
        match self {
            Self::NoPrevResult => Code::InvalidConfig,
            Self::Missing { .. } => Code::CheckFailed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoPrevResult => "chain firewall behind the plugin that assigns addresses".to_owned(),
            Self::Missing { family, rule, shared: _ } => {
                format!("this fails: {} -t filter -C {}", family.iptables(), rule.specification())
            }
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
        journal.apply(&plan::add(&config, &request.attachment()?, &prev_result)?)?;
        Ok(prev_result)
    }

    /// The keys of the configuration do not matter here: what is to go follows from the addresses.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let owner = request.attachment()?;
        let addresses = observe_own_addresses(request, &owner, host)?;
        carry_out(host, &plan::del(&owner, &addresses))
    }

    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::try_from(request.decode::<Keys>()?)?;
        let prev_result = request.prev_result()?.ok_or(FirewallError::NoPrevResult)?;
        for want in plan::wanted(&config, &prev_result)? {
            if let Some(rule) = missing(host.tables(), &want)? {
                let (rule, shared) = (rule.clone(), !want.rules.contains(rule));
                return Err(FirewallError::Missing { family: want.family, rule, shared }.into());
            }
        }
        Ok(())
    }
}

/// The addresses whose rules go with an attachment: those that the runtime remembers and those that were
/// claimed, but none that belongs to another by now.
fn observe_own_addresses(request: &Request, owner: &Attachment, host: &mut dyn Host) -> Result<Vec<IpAddr>, Error> {
    let remembered = match request.prev_result() {
        Ok(prev_result) => prev_result.map(|result| plan::addresses(&result)).unwrap_or_default(),
        Err(error) => {
            log::warn!("DEL goes on without prevResult: {error}: {}", error.details());
            Vec::new()
        }
    };
    let claimed = host.addresses_owned_by(owner)?;
    let mut own = Vec::new();
    for address in plan::sorted(remembered.into_iter().chain(claimed)) {
        match host.address_owner(address)? {
            Some(other) if other != *owner => {
                log::info!("{address} belongs to container {} by now: its rules stay", other.container);
            }
            Some(_) | None => own.push(address),
        }
    }
    Ok(own)
}

/// Carries out every plan, each up to its first failure. The first failure is reported, with notes of the others.
fn carry_out(host: &mut dyn Host, plans: &[Plan]) -> Result<(), Error> {
    let mut failed: Option<Error> = None;
    for plan in plans {
        if let Err(error) = plan.steps().iter().try_for_each(|(_, step)| host.apply(step).map(|_| ())) {
            failed = Some(match failed {
                None => error,
                Some(first) => first.with_note(format!("and: {error}: {}", error.details())),
            });
        }
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
