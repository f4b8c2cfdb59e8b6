//! DEL: what is to go follows from the addresses; the keys say at most where to look for it.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::request::Request;
use cni_netfilter::firewalld::Zone;
use cni_plugin::host::Host;
use cni_plugin::keeper::Keeper;
use cni_plugin::plan::{Plan, Step};
use cni_plugin::removal::Removal;

use crate::keepers::Held;
use crate::{iptables, keepers, nftables};

/// Removes what the attachment's addresses have.
///
/// # Errors
/// The first failure, with notes of the others.
pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let held = keepers::observe_held(request, &request.attachment()?, host)?;
    remove(host, &held)
}

/// Removes what addresses have; one whose rules cannot be removed stays claimed.
///
/// # Errors
/// The first failure, with notes of the others.
pub fn remove(host: &mut dyn Host, held: &[Held]) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    plans(held).iter().for_each(|plan| removal.in_order(plan));
    removal.finish()
}

/// What removes what addresses have. Those of a family that iptables keeps have a plan of their own,
/// those that nf_tables keep have one, and so has each of the others, so that one that fails does not keep
/// the others. An address is released once its rules are gone.
fn plans(held: &[Held]) -> Vec<Plan> {
    let kept_by = |held: &Held, keeper: &Keeper| held.keepers == [keeper.clone()];
    let (plain, others): (Vec<&Held>, Vec<&Held>) = held.iter().partition(|held| kept_by(held, &Keeper::Iptables));
    let (native, others): (Vec<&Held>, Vec<&Held>) =
        others.into_iter().partition(|held| kept_by(held, &Keeper::Nftables));
    let of = |family| plain.iter().copied().filter(move |held| Family::of(held.address) == family).collect();
    let groups = Family::ALL.into_iter().map(of).chain([native]).filter(|some: &Vec<&Held>| !some.is_empty());
    groups.chain(others.into_iter().map(|held| vec![held])).map(|held| removal(&held)).collect()
}

/// Removes what some addresses have: all of them of one family, or none of them in iptables.
fn removal(held: &[&Held]) -> Plan {
    let mut plan = Plan::default();
    for (zone, address) in held.iter().flat_map(|held| sources(held)) {
        plan.owned(Step::RemoveSource { zone: zone.clone(), address });
    }
    let kept_by = |keeper: &Keeper| -> Vec<IpAddr> {
        held.iter().filter(|held| held.keepers.contains(keeper)).map(|held| held.address).collect()
    };
    let in_nftables = kept_by(&Keeper::Nftables);
    if !in_nftables.is_empty() {
        plan.owned(Step::remove_rules(nftables::remove(&in_nftables)));
    }
    let in_tables = kept_by(&Keeper::Iptables);
    if let Some(family) = in_tables.first().copied().map(Family::of) {
        plan.owned(Step::remove_rules(iptables::remove(family, in_tables)));
    }
    for Held { address, owner, keepers: _ } in held {
        plan.owned(Step::ReleaseAddress { address: *address, owner: owner.clone() });
    }
    plan
}

fn sources(held: &Held) -> impl Iterator<Item = (&Zone, IpAddr)> {
    held.keepers.iter().filter_map(|keeper| match keeper {
        Keeper::Firewalld(zone) => Some((zone, held.address)),
        Keeper::Iptables | Keeper::Nftables => None,
    })
}

#[cfg(test)]
mod tests;
