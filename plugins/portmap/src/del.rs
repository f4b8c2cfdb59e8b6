//! DEL: it needs nothing but the names of the attachment. What else it is told only makes it faster. Both
//! backends are cleaned, whichever the configuration names by now.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{Attachment, ChainName};
use cni_netfilter::flows::{PortChange, StaleFlows};
use cni_netfilter::iptables::{IptablesRule, IptablesTable, Target};
use cni_netfilter::{Backend, unless_absent};
use cni_plugin::host::Host;
use cni_plugin::plan::{Ns, Plan, Step};
use cni_plugin::removal::Removal;

use crate::config::Config;
use crate::{flows, nftables, plan};

/// Removes what a container has. What fails does not keep the rest.
pub fn del(host: &mut dyn Host, at: &Attachment, config: Option<&Config>, targets: &[Cidr]) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    removal.attempt(|host| match config {
        Some(Config { backend: Backend::Nftables, .. }) => of_iptables(host, at, None, &[]),
        Some(Config { backend: Backend::Iptables, .. }) | None => of_iptables(host, at, config, targets),
    });
    let flows: Vec<StaleFlows> = config.map_or_else(Vec::new, |config| {
        targets.iter().filter_map(|target| flows::of_mappings(PortChange::Unmapped, config, *target)).collect()
    });
    removal.attempt(|host| nftables::del(host, at, &flows));
    removal.finish()
}

/// Removes what a container has in both families, or in those that its addresses tell.
fn of_iptables(host: &mut dyn Host, at: &Attachment, config: Option<&Config>, targets: &[Cidr]) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    for family in Family::ALL {
        let target = targets.iter().find(|target| target.family() == family);
        if target.is_none() && !targets.is_empty() {
            continue;
        }
        let entries = config.map(|config| plan::entries(config, at, family)).unwrap_or_default();
        let flows =
            target.zip(config).and_then(|(target, config)| flows::of_mappings(PortChange::Unmapped, config, *target));
        let address = target.map(|target| target.address());
        removal.attempt(|host| remove(host, family, at, Expected { entries, flows, address }));
    }
    removal.finish()
}

/// What a container is believed to have.
struct Expected {
    /// The rules that lead to its chain.
    entries: Vec<IptablesRule>,
    /// Connections that the rules have led to it.
    flows: Option<StaleFlows>,
    /// Where its rules lead, if that is known.
    address: Option<IpAddr>,
}

/// Removes a container's chains. The rules that lead to them, expected or seen, prove in one batch that
/// nothing is left. Most containers have no chain, so without expectations it is looked for first.
fn remove(host: &mut dyn Host, family: Family, at: &Attachment, expected: Expected) -> Result<(), Error> {
    let Expected { mut entries, flows, address } = expected;
    let mut flows: Vec<StaleFlows> = flows.into_iter().collect();
    if entries.is_empty() || address.is_none() {
        match list(host, family, &at.dnat_chain())? {
            None if entries.is_empty() => return Ok(()),
            None => {}
            // The chain is named for the container, and this one is of another of its interfaces.
            Some(rules) if address.is_some_and(|address| leads_elsewhere(&rules, address)) => return Ok(()),
            Some(rules) => flows = flows::of_rules(&rules),
        }
    }
    if entries.is_empty() {
        entries = observe_entries(host, family, at)?;
    }
    removed_with_flows(host, plan::del(family, at, entries), flows)
}

/// Removes rules, and then lets the kernel forget the connections that they have led to the container: before,
/// the rules would lead the next packet there again.
pub fn removed_with_flows(host: &mut dyn Host, rules: Step, flows: Vec<StaleFlows>) -> Result<(), Error> {
    let mut plan = Plan::default();
    plan.owned(rules);
    flows.into_iter().for_each(|stale| plan.shared(Step::ForgetFlows(stale)));
    let mut removal = Removal::new(host);
    removal.in_order(&plan);
    removal.finish()
}

/// The rules of a chain that may not be there.
fn list(host: &mut dyn Host, family: Family, chain: &ChainName) -> Result<Option<Vec<IptablesRule>>, Error> {
    let listed = host.netfilter(Ns::Host)?.iptables().list(family, IptablesTable::Nat, chain);
    Ok(unless_absent(listed)?.flatten())
}

/// Whether there are translations, and all of them to other addresses.
fn leads_elsewhere(rules: &[IptablesRule], address: IpAddr) -> bool {
    let target = |rule: &IptablesRule| if let Target::Dnat(to) = &rule.target { Some(to.ip()) } else { None };
    let mut targets = rules.iter().filter_map(target);
    targets.next().is_some_and(|first| first != address && targets.all(|other| other != address))
}

fn observe_entries(host: &mut dyn Host, family: Family, at: &Attachment) -> Result<Vec<IptablesRule>, Error> {
    let rules = list(host, family, &ChainName::fixed(plan::DNAT))?.unwrap_or_default();
    Ok(rules.into_iter().filter(|rule| rule.jumps_to(&at.dnat_chain())).collect())
}
