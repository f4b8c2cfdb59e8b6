//! DEL: the addresses decide what is removed; the keys only say where to look for it.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_model::plan::{Plan, Step};
use cni_netfilter::RuleRemoval;
use cni_netfilter::firewalld::Zone;
use cni_plugin::host::Host;
use cni_plugin::namespace::RecordedNamespace;
use cni_plugin::removal::Removal;

use crate::claims::{ClaimRegister, RuleBackend};
use crate::locate::{AddressRemoval, OwnedAddress};
use crate::{claims, iptables, locate, nftables};

/// Removes what the attachment's addresses have.
pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let owner = request.attachment()?;
    let leaving = locate::observe_leaving(request, &owner, host)?;
    let mut removal = Removal::new(host);
    if !leaving.iter().any(|one| matches!(one, AddressRemoval::Owned(owned) if owned.owner == owner)) {
        removal.attempt(|host| release(&owner, &[], host));
    }
    for leaving in &leaving {
        if let AddressRemoval::Lost { address } = leaving {
            removal.attempt(|host| forget(&owner, *address, host));
        }
    }
    removal.attempt(|host| remove(leaving, host));
    removal.finish()
}

/// GC: removes what belongs to no valid attachment of the network. The owners of rules are found by their claims, since the rules name
/// no container.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let is_stale = |owner: &Attachment| {
        owner.network == request.network && !valid.contains(owner.container.as_str(), Some(owner.ifname.as_str()))
    };
    let claimed = claims::of_network(&request.network, host.records())?;
    let stale: Vec<IpAddr> =
        claimed.into_iter().filter(|(_, claim)| is_stale(&claim.owner)).map(|(address, _)| address).collect();
    claims::lock(stale.iter().copied(), host);
    let mut leaving = Vec::new();
    for address in stale {
        if let Some(claim) = claims::find(address, host.records())?.filter(|claim| is_stale(&claim.owner)) {
            leaving.push(locate::observe_stale(address, claim, host)?);
        }
    }
    remove(leaving, host)
}

/// Removes the rules of addresses. An address whose rules cannot be removed stays claimed, so that they are found
/// again.
pub fn remove(leaving: Vec<AddressRemoval>, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    let mut owned = Vec::new();
    for leaving in leaving {
        match leaving {
            AddressRemoval::Owned(one) => owned.push(one),
            AddressRemoval::HandedBack { address, to, home } => {
                log::info!("{address} belongs to container {} again; its rules stay", to.container);
                removal.attempt(|host| hand_back(address, &to, &home, host));
            }
            AddressRemoval::TakenOver { address, owner } => {
                removal.attempt(|host| release(&owner, &[address], host));
            }
            AddressRemoval::Lost { .. } => {}
        }
    }
    for group in groups(owned) {
        removal.attempt(|host| host.carry_out(&plan(&group)).and_then(|()| release_all(&group, host)));
    }
    removal.finish()
}

fn hand_back(address: IpAddr, to: &Attachment, home: &RecordedNamespace, host: &mut dyn Host) -> Result<(), Error> {
    let register = ClaimRegister::observe(to, &[address], host.records())?;
    host.carry_out(&register.hand_back(address, to, home))
}

fn forget(owner: &Attachment, address: IpAddr, host: &mut dyn Host) -> Result<(), Error> {
    let register = ClaimRegister::observe(owner, &[address], host.records())?;
    host.carry_out(&register.forget(address, owner))
}

fn held_by(group: &[OwnedAddress], backend: &RuleBackend) -> Vec<IpAddr> {
    group.iter().filter(|one| one.backends.contains(backend)).map(|one| one.address).collect()
}

fn release_all(group: &[OwnedAddress], host: &mut dyn Host) -> Result<(), Error> {
    group.iter().try_for_each(|one| release(&one.owner, &[one.address], host))
}

fn release(owner: &Attachment, addresses: &[IpAddr], host: &mut dyn Host) -> Result<(), Error> {
    let register = ClaimRegister::observe(owner, addresses, host.records())?;
    host.carry_out(&register.release(owner, addresses))
}

/// Groups of addresses whose rules one command removes: those of a family in iptables, those in nf_tables, and each
/// other one alone, so that a failure of one group does not affect the others.
fn groups(owned: Vec<OwnedAddress>) -> impl Iterator<Item = Vec<OwnedAddress>> {
    let held_by = |owned: &OwnedAddress, backend: &RuleBackend| owned.backends == [backend.clone()];
    let (plain, others): (Vec<_>, Vec<_>) = owned.into_iter().partition(|one| held_by(one, &RuleBackend::Iptables));
    let (native, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|one| held_by(one, &RuleBackend::Nftables));
    let (v4, v6): (Vec<_>, Vec<_>) = plain.into_iter().partition(|one| Family::of(one.address) == Family::V4);
    let groups = [v4, v6, native].into_iter().filter(|group| !group.is_empty());
    groups.chain(others.into_iter().map(|one| vec![one]))
}

/// Removes the rules of a group.
fn plan(group: &[OwnedAddress]) -> Plan {
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

fn sources(owned: &OwnedAddress) -> impl Iterator<Item = (&Zone, IpAddr)> {
    owned.backends.iter().filter_map(|backend| match backend {
        RuleBackend::Firewalld(zone) => Some((zone, owned.address)),
        RuleBackend::Iptables | RuleBackend::Nftables => None,
    })
}
