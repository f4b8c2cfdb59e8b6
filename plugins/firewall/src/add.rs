//! ADD: claims the addresses, and accepts their traffic.
//!
//! With firewalld, the addresses become sources of a zone; with nftables, elements of a set. The rules for an address
//! name no owner, so a claim, which is recorded first, names it.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_model::plan::{Plan, Step};
use cni_netfilter::Ruleset;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::claims::{self, RuleBackend};
use crate::config::Config;
use crate::locate::{addresses, families, prev_result};
use crate::policy::PolicyBridge;
use crate::{del, iptables, locate, nftables};

/// Lets the traffic of every address of the result through.
pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let prev_result = prev_result(request)?;
    if prev_result.ips.is_empty() {
        return Ok(prev_result);
    }
    let (owner, addresses) = (request.attachment()?, addresses(&prev_result));
    let Some(backend) = locate::choose(&config, families(&addresses), journal.host())? else { return Ok(prev_result) };
    claims::lock(addresses.iter().copied(), journal.host());
    clear_abandoned(&owner, &addresses, journal.host())?;
    let earlier = journal.host().ledger().entry(&owner)?;
    let plan_by = |backend: &RuleBackend| {
        let rulesets = rulesets(&config, backend, &addresses, &prev_result)?;
        let claim = claims::write(&owner, None, earlier.as_ref(), &addresses, backend);
        Ok::<_, Error>(let_through(claim, backend, &addresses, rulesets))
    };
    if let Err(error) = journal.apply(&plan_by(&backend)?) {
        // firewalld may have ended meanwhile, or may not serve this user.
        let Some(other) = locate::choose(&config, families(&addresses), journal.host())?.filter(|now| *now != backend)
        else {
            return Err(error);
        };
        log::warn!("using {other}, since {backend} failed: {}", error.in_full());
        journal.apply(&plan_by(&other)?)?;
    }
    Ok(prev_result)
}

/// Removes the rules that former owners of the addresses have left: their DEL was never called, or was the reference's. They may be in
/// another back end than the new rules, or block them: in firewalld an address can be in only one zone.
fn clear_abandoned(owner: &Attachment, addresses: &[IpAddr], host: &mut dyn Host) -> Result<(), Error> {
    let mut abandoned = Vec::new();
    for address in addresses {
        abandoned.push(locate::observe_claimants(*address, owner, host)?.leave(*address));
    }
    if let Err(error) = del::remove(abandoned, host) {
        log::warn!("rules of a container that is gone cannot be removed: {}", error.in_full());
    }
    Ok(())
}

/// Makes the sources of a zone, and the rules that some addresses need, after the step that claims them.
pub fn let_through(claim: Step, backend: &RuleBackend, addresses: &[IpAddr], rulesets: Vec<Ruleset>) -> Plan {
    let mut plan = Plan::of_owned([claim]);
    if let RuleBackend::Firewalld(zone) = backend {
        addresses.iter().for_each(|address| plan.owned(Step::AddSource { zone: zone.clone(), address: *address }));
    }
    rulesets.into_iter().for_each(|ruleset| plan.owned(Step::ensure_rules(ruleset)));
    plan
}

/// The rules that some addresses need. A policy beside firewalld is one of iptables.
pub fn rulesets(
    config: &Config,
    backend: &RuleBackend,
    addresses: &[IpAddr],
    prev_result: &CniResult,
) -> Result<Vec<Ruleset>, Error> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let barrier = PolicyBridge::choose(config.policy, prev_result)?;
    match (backend, &barrier) {
        (RuleBackend::Iptables | RuleBackend::Firewalld(_), Some(barrier))
            if barrier.bridge.as_str().ends_with('+') =>
        {
            let name = barrier.bridge.as_str();
            return Err(fail!(
                InvalidConfig,
                "bridge name {name:?} ends in +, which is a wildcard for iptables",
                details: "a + at the end of a name stands for any ending: use backend nftables"
            ));
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
