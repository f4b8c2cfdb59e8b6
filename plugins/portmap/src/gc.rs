//! GC: removes the chains of containers that are no more, as far as rules of this network lead to them.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{ChainName, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_netfilter::flows::StaleFlows;
use cni_netfilter::iptables::{IptablesRemoval, IptablesTable, Match, stale};
use cni_netfilter::{Proto, unless_absent};
use cni_plugin::host::Host;
use cni_plugin::plan::{Ns, Step};
use cni_plugin::removal::Removal;

use crate::del::removed_with_flows;
use crate::{flows, plan};

/// Removes in both families what belongs to no valid attachment. A family that fails does not keep the other.
pub fn gc(host: &mut dyn Host, network: &NetworkName, valid: &ValidAttachments) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    for family in Family::ALL {
        removal.attempt(|host| of_family(host, family, network, valid));
    }
    removal.finish()
}

fn of_family(
    host: &mut dyn Host,
    family: Family,
    network: &NetworkName,
    valid: &ValidAttachments,
) -> Result<(), Error> {
    let chain = ChainName::fixed(plan::DNAT);
    let entries = unless_absent(host.netfilter(Ns::Host)?.iptables().list(family, IptablesTable::Nat, &chain))?;
    let entries = entries.flatten().unwrap_or_default();
    let Some(unwanted) = stale(family, IptablesTable::Nat, entries, network, valid) else { return Ok(()) };
    let flows = observe_flows(host, &unwanted)?;
    removed_with_flows(host, Step::remove_rules(unwanted), flows)
}

/// Reads the chains to which UDP ports lead.
fn observe_flows(host: &mut dyn Host, unwanted: &IptablesRemoval) -> Result<Vec<StaleFlows>, Error> {
    let is_udp = |part: &Match| matches!(part, Match::Ports(Proto::Udp, _));
    let entries = unwanted.rules.iter().filter(|rule| rule.matches.iter().any(is_udp));
    let chains: BTreeSet<&ChainName> = entries
        .flat_map(|rule| unwanted.chains.iter().map(|chain| &chain.name).filter(|chain| rule.jumps_to(chain)))
        .collect();
    let mut flows = Vec::new();
    for chain in chains {
        let rules =
            host.netfilter(Ns::Host)?.iptables().list(unwanted.family, unwanted.table, chain)?.unwrap_or_default();
        flows.extend(flows::of_rules(&rules));
    }
    Ok(flows)
}
