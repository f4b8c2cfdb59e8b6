//! ADD: claims the addresses, and lets their traffic through.
//!
//! Where firewalld holds the filter, the addresses become sources of a zone, and where nf_tables do, elements of
//! a set. The rules for an address carry no name, so a claim, recorded first, says whose they are.

use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_model::plan::{Plan, Step};
use cni_netfilter::Ruleset;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::namespace::RecordedNamespace;

use crate::FirewallError;
use crate::addresses::{addresses, families};
use crate::backend::RuleBackend;
use crate::claims::Register;
use crate::config::{Config, ConfigError, Keys};
use crate::policy::{Barrier, BridgeError};
use crate::{del, iptables, locate, nftables};

/// Lets the traffic of every address of the result through.
///
/// # Errors
/// What cannot be used, or could not be done.
pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::try_from(request.decode::<Keys>()?)?;
    let prev_result = request.prev_result()?.ok_or(FirewallError::NoPrevResult)?;
    if prev_result.ips.is_empty() {
        return Ok(prev_result);
    }
    let (owner, addresses) = (request.attachment()?, addresses(&prev_result));
    if let Some(backend) = locate::choose(&config, families(&addresses), journal.host())? {
        clear_abandoned(&owner, &addresses, journal.host())?;
        let register = Register::observe(&owner, &addresses, journal.host().records())?;
        let home = RecordedNamespace::observe(request, journal.host())?;
        let claim = register.claim(&owner, home.as_ref(), &addresses, &backend);
        journal.apply(&plan(&config, &backend, claim, &prev_result)?)?;
    }
    Ok(prev_result)
}

/// Removes what those have left that had the addresses before. It may be where the new rules do not go, or be in their
/// way: firewalld has an address in one zone only.
fn clear_abandoned(owner: &Attachment, addresses: &[IpAddr], host: &mut dyn Host) -> Result<(), Error> {
    let abandoned = locate::observe_abandoned(owner, addresses, host)?;
    if let Err(error) = del::remove(abandoned, host) {
        log::warn!("rules of a container that is gone cannot be removed: {}", error.in_full());
    }
    Ok(())
}

/// Why there can be no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesetError {
    /// There is a policy, and no bridge that it could be about.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// The rules are in nf_tables, and the administrator's chain cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Failure for RulesetError {
    fn code(&self) -> Code {
        match self {
            Self::Bridge(source) => source.code(),
            Self::Config(source) => source.code(),
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Bridge(source) => source.details(),
            Self::Config(source) => source.details(),
        }
    }
}

/// Behind the plan that claims the addresses: makes the sources of a zone, and the rules of each family in use.
///
/// # Errors
/// As [`rulesets`].
fn plan(config: &Config, backend: &RuleBackend, claim: Plan, prev_result: &CniResult) -> Result<Plan, RulesetError> {
    let addresses = addresses(prev_result);
    let rulesets = rulesets(config, backend, &addresses, prev_result)?;
    Ok(let_through(claim, backend, &addresses, rulesets))
}

/// Makes the sources of a zone, and the rules that some addresses need, behind the plan that claims them.
pub fn let_through(claim: Plan, backend: &RuleBackend, addresses: &[IpAddr], rulesets: Vec<Ruleset>) -> Plan {
    let mut plan = claim;
    if let RuleBackend::Firewalld(zone) = backend {
        addresses.iter().for_each(|address| plan.owned(Step::AddSource { zone: zone.clone(), address: *address }));
    }
    rulesets.into_iter().for_each(|ruleset| plan.owned(Step::ensure_rules(ruleset)));
    plan
}

/// The rules that some addresses need. A policy beside firewalld is one of iptables.
///
/// # Errors
/// When there is a policy and no bridge that it could be about, or an administrator's chain that the back
/// end cannot have.
pub fn rulesets(
    config: &Config,
    backend: &RuleBackend,
    addresses: &[IpAddr],
    prev_result: &CniResult,
) -> Result<Vec<Ruleset>, RulesetError> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let barrier = Barrier::choose(config.policy, prev_result)?;
    match (backend, &barrier) {
        (RuleBackend::Iptables | RuleBackend::Firewalld(_), Some(barrier))
            if barrier.bridge.as_str().ends_with('+') =>
        {
            return Err(BridgeError::Pattern { name: barrier.bridge.to_string() }.into());
        }
        (RuleBackend::Iptables | RuleBackend::Nftables | RuleBackend::Firewalld(_), _) => {}
    }
    let families = by_family(addresses);
    Ok(match backend {
        RuleBackend::Iptables => families
            .map(|(family, addresses)| {
                iptables::ensure(&config.admin_chain, barrier.as_ref(), family, &addresses).into()
            })
            .collect(),
        RuleBackend::Nftables => {
            let admin = config.admin_chain_of_nftables()?;
            vec![nftables::ensure(admin, barrier.as_ref(), addresses).into()]
        }
        RuleBackend::Firewalld(_) => {
            families.filter_map(|(family, _)| Some(iptables::policy_alone(barrier.as_ref()?, family).into())).collect()
        }
    })
}

fn by_family(addresses: &[IpAddr]) -> impl Iterator<Item = (Family, Vec<IpAddr>)> {
    let of = |family| addresses.iter().copied().filter(|address| Family::of(*address) == family).collect();
    Family::ALL.into_iter().map(move |family| (family, of(family))).filter(|(_, some): &(_, Vec<_>)| !some.is_empty())
}

#[cfg(test)]
mod tests;
