//! ADD: maps the ports, and lets the host itself reach them by its loopback address.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error};
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_model::plan::{Ns, Plan, Step, Sysctl, SysctlNeed};
use cni_netfilter::flows::PortChange;
use cni_netfilter::{Backend, RulePosition};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::config::Config;
use crate::contested::{self, ContestedPorts};
use crate::input::Input;
use crate::{flows, iptables, localnet, nftables};

/// Maps the ports to the container's addresses.
pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let input = Input::read(request, "must be called as chained plugin", journal.host())?;
    let link = match localnet_target(&input) {
        Some(target) => observe_link(journal.host(), target)?,
        None => None,
    };
    if link.is_some() {
        guard_loopback(journal.host());
    }
    supersede(journal.host(), &input)?;
    let contested = contested::claim(&input, journal);
    journal.apply(&plan(&input, link.as_ref(), &contested)).map_err(|error| with_unchecked(error, &input.config))?;
    Ok(input.prev_result)
}

/// The address to which the host must route from its loopback, if any.
pub fn localnet_target(input: &Input) -> Option<IpAddr> {
    let target = input.mapped().find(|target| target.family() == localnet::FAMILY)?;
    input.config.masquerade.as_ref().map(|_| target.address())
}

/// The host's link to the container.
pub fn observe_link(host: &mut dyn Host, target: IpAddr) -> Result<Option<IfName>, Error> {
    match host.link_towards(Ns::Host, target)? {
        Some(link) => Ok(Some(IfName::parse(&link.name)?)),
        None => {
            log::warn!("there is no route to {target}: its ports cannot be reached at the host's loopback address");
            Ok(None)
        }
    }
}

/// The reference has no such guard, and a host without nf_tables none either.
fn guard_loopback(host: &mut dyn Host) {
    if let Err(error) = host.apply(&Step::ensure_rules(localnet::guard())) {
        let details = error.details();
        log::warn!("containers can reach what listens on the host's loopback: {error}: {details}");
    }
}

/// Removes rules of the reference that would conflict with ours.
fn supersede(host: &mut dyn Host, input: &Input) -> Result<(), Error> {
    if input.config.backend == Backend::Iptables {
        return Ok(());
    }
    for target in input.mapped() {
        if let Some(unwanted) = nftables::observe_superseded(host, &input.config, &input.at, target.family())? {
            host.apply(&Step::remove_rules(unwanted))?;
        }
    }
    Ok(())
}

/// Plans the rules for each family. `link` is the host's link to the container, if loopback addresses are to be routed
/// on it; `contested` are the ports that others have.
fn plan(input: &Input, link: Option<&IfName>, contested: &ContestedPorts) -> Plan {
    let mut plan = Plan::default();
    for target in input.mapped() {
        let family = target.family();
        lead(&mut plan, input, target, contested, PortChange::Mapped);
        if let Some(name) = link.filter(|_| family == localnet::FAMILY) {
            let key = Sysctl::interface(family, name, "route_localnet");
            plan.shared(Step::SetSysctl { ns: Ns::Host, key, value: "1".to_owned(), need: SysctlNeed::Required });
        }
    }
    plan
}

/// Plans the rules that lead to one of the container's addresses, and the deletion of connections that lead elsewhere.
pub fn lead(plan: &mut Plan, input: &Input, target: Cidr, contested: &ContestedPorts, change: PortChange) {
    let Input { config, at, chains, .. } = input;
    let later = contested.later(target.family());
    match config.backend {
        Backend::Iptables => {
            let chain = chains.chain();
            let later = later.flat_map(|at| [at.dnat_chain(), at.interface_dnat_chain()]).filter(|one| *one != chain);
            let position = RulePosition::before(later.map(|chain| chain.to_string()));
            plan.owned(Step::ensure_rules(iptables::ensure(config, at, &chain, target, position)));
        }
        Backend::Nftables => {
            let position = RulePosition::before(later.map(nftables::own_chain));
            if config.masquerade.is_none() {
                plan.within(Step::remove_rules(nftables::unmasquerade(at, target.family())));
            }
            plan.owned(Step::ensure_rules(nftables::ensure(config, at, target, position)));
        }
    }
    let stale = flows::of_mappings(change, config, target);
    if let Some(stale) = stale.and_then(|stale| stale.without(&contested.kept_from_it())) {
        plan.shared(Step::ForgetFlows(stale));
    }
}

/// Adds the administrator's keys to an error of the back end, whose text is only about its own input.
fn with_unchecked(error: Error, config: &Config) -> Error {
    if [Code::Kernel, Code::Program].contains(&error.code()) {
        return config.unchecked().into_iter().fold(error, Error::with_note);
    }
    error
}
