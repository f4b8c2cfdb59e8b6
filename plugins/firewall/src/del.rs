//! DEL: the addresses decide what is removed; the keys only say where to look for it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_model::plan::{Plan, Step};
use cni_model::record::Part;
use cni_netfilter::RuleRemoval;
use cni_netfilter::firewalld::Zone;
use cni_plugin::host::Host;
use cni_plugin::ledger::{self, ADDRESS};
use cni_plugin::removal::Removal;

use crate::claims::{LeavingAddress, RuleBackend};
use crate::{iptables, locate, nftables};

/// Removes what the attachment's addresses have.
pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    remove(locate::observe_leaving(request, &request.attachment()?, host)?, host)
}

/// GC: removes what belongs to no valid attachment of the network.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    remove(locate::observe_stale(&|at| ledger::is_invalid(at, &request.network, valid), host)?, host)
}

/// Removes the rules of addresses. An address whose rules cannot be removed stays claimed, so that they are found
/// again.
pub fn remove(leaving: Vec<LeavingAddress>, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    let mut released: BTreeMap<Attachment, Vec<Part>> = BTreeMap::new();
    for group in groups(leaving) {
        if removal.attempt(|host| host.carry_out(&plan(&group))).is_none() {
            continue;
        }
        for LeavingAddress { address, owners, .. } in group {
            owners.into_iter().for_each(|at| released.entry(at).or_default().push(ADDRESS.about(address)));
        }
    }
    released.into_iter().for_each(|(at, parts)| removal.step(&ledger::remove(&at, parts)));
    removal.finish()
}

/// Groups of addresses whose rules one command removes: those of a family in iptables, those in nf_tables, and each
/// other one alone, so that a failure of one group does not affect the others.
fn groups(leaving: Vec<LeavingAddress>) -> impl Iterator<Item = Vec<LeavingAddress>> {
    let held_by = |one: &LeavingAddress, backend: &RuleBackend| one.backends == [backend.clone()];
    let (plain, others): (Vec<_>, Vec<_>) = leaving.into_iter().partition(|one| held_by(one, &RuleBackend::Iptables));
    let (native, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|one| held_by(one, &RuleBackend::Nftables));
    let (v4, v6): (Vec<_>, Vec<_>) = plain.into_iter().partition(|one| Family::of(one.address) == Family::V4);
    let groups = [v4, v6, native].into_iter().filter(|group| !group.is_empty());
    groups.chain(others.into_iter().map(|one| vec![one]))
}

/// Removes the rules of a group.
fn plan(group: &[LeavingAddress]) -> Plan {
    let mut plan = Plan::default();
    for (zone, address) in group.iter().flat_map(sources) {
        plan.owned(Step::RemoveSource { zone: zone.clone(), address });
    }
    let in_nftables = held_by(group, &RuleBackend::Nftables);
    if !in_nftables.is_empty() {
        plan.owned(Step::remove_rules(RuleRemoval::from(nftables::remove(&in_nftables)).known()));
    }
    let in_tables = held_by(group, &RuleBackend::Iptables);
    if let Some(family) = in_tables.first().copied().map(Family::of) {
        plan.owned(Step::remove_rules(RuleRemoval::from(iptables::remove(family, in_tables)).known()));
    }
    plan
}

fn held_by(group: &[LeavingAddress], backend: &RuleBackend) -> Vec<IpAddr> {
    group.iter().filter(|one| one.backends.contains(backend)).map(|one| one.address).collect()
}

fn sources(leaving: &LeavingAddress) -> impl Iterator<Item = (&Zone, IpAddr)> {
    leaving.backends.iter().filter_map(|backend| match backend {
        RuleBackend::Firewalld(zone) => Some((zone, leaving.address)),
        RuleBackend::Iptables | RuleBackend::Nftables => None,
    })
}
