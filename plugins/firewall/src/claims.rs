//! Whose the packet filter's rules for an address are.
//!
//! The plugin's rules name just an address, byte for byte as the reference's do. So that a late DEL of an
//! old container does not take the rules of the address's new owner, the owner of each address is recorded, with
//! the back ends that hold rules for it, and beside it the addresses of each owner.
//! Which records a claim changes is decided here; steps of a plan write them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_plugin::plan::{Plan, Step};
use cni_plugin::record::{RecordKey, RecordKind, Records};

use crate::backend::RuleBackend;

/// The records: of each address by its text, of each owner by a hash.
const CLAIMS: RecordKind = RecordKind::new("claims");

/// Whose the rules for an address are, and where they may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose they are.
    pub owner: Attachment,
    /// What holds them, each once, the last one that was given some last.
    pub backends: Vec<RuleBackend>,
}

/// The claim of an address; `None` when there is none, or one that makes no sense.
///
/// # Errors
/// When the record cannot be read.
pub fn find(address: IpAddr, records: &mut dyn Records) -> Result<Option<Claim>, Error> {
    Ok(records.read(&of_address(address))?.and_then(|text| Claim::parse(&text)))
}

/// The addresses that an owner has claimed, and those that it was about to claim when it was stopped.
///
/// # Errors
/// When a record cannot be read.
pub fn addresses_of(owner: &Attachment, records: &mut dyn Records) -> Result<Vec<IpAddr>, Error> {
    let mut own = Vec::new();
    for address in listed(owner, records)? {
        if find(address, records)?.is_none_or(|claim| claim.owner == *owner) {
            own.push(address);
        }
    }
    Ok(own)
}

/// The addresses that attachments of a network have claimed, in order.
///
/// # Errors
/// When the records cannot be read.
pub fn of_network(network: &NetworkName, records: &mut dyn Records) -> Result<Vec<(IpAddr, Claim)>, Error> {
    let mut addresses: Vec<IpAddr> = records.names(CLAIMS)?.iter().filter_map(|name| name.parse().ok()).collect();
    addresses.sort_unstable();
    let mut found = Vec::new();
    for address in addresses {
        let claim = find(address, records)?.filter(|claim| claim.owner.network == *network);
        found.extend(claim.map(|claim| (address, claim)));
    }
    Ok(found)
}

/// What is recorded about some addresses, and about everybody who owns or is to own one of them.
#[derive(Clone, Debug, Default)]
pub struct Register {
    claims: BTreeMap<IpAddr, Claim>,
    lists: BTreeMap<RecordKey, BTreeSet<IpAddr>>,
}

impl Register {
    /// Reads the records of an owner and of some addresses.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn observe(owner: &Attachment, addresses: &[IpAddr], records: &mut dyn Records) -> Result<Self, Error> {
        let mut register = Self::default();
        register.observe_list(owner, records)?;
        for address in addresses {
            if let Some(claim) = find(*address, records)? {
                register.observe_list(&claim.owner, records)?;
                register.claims.insert(*address, claim);
            }
        }
        Ok(register)
    }

    fn observe_list(&mut self, owner: &Attachment, records: &mut dyn Records) -> Result<(), Error> {
        self.lists.insert(of_owner(owner), listed(owner, records)?);
        Ok(())
    }

    /// Records that the rules for some addresses are `owner`'s and that a back end holds them, beside those
    /// that did before; an earlier owner loses them. The owner's list comes first: whatever is stopped then,
    /// all that was claimed is found.
    pub fn claim(&self, owner: &Attachment, addresses: &[IpAddr], backend: &RuleBackend) -> Plan {
        let mut plan = Plan::default();
        let mut lists = self.lists.clone();
        self.write_list(&mut plan, &mut lists, owner, |list| list.extend(addresses));
        for address in addresses {
            let earlier = self.claims.get(address);
            let claim = Claim { owner: owner.clone(), backends: with(earlier, backend) };
            plan.owned(Step::WriteRecord { key: of_address(*address), text: claim.to_string() });
            if let Some(former) = earlier.map(|claim| &claim.owner).filter(|former| *former != owner) {
                self.write_list(&mut plan, &mut lists, former, |list| {
                    list.remove(address);
                });
            }
        }
        plan
    }

    /// Forgets that the rules for some addresses are `owner`'s; another owner's claim stays. Where nothing
    /// is recorded the owner's list is removed all the same: with it goes what an ADD that was killed has left.
    pub fn release(&self, owner: &Attachment, addresses: &[IpAddr]) -> Plan {
        let mut plan = Plan::default();
        for address in addresses {
            if self.claims.get(address).is_some_and(|claim| claim.owner == *owner) {
                plan.owned(Step::RemoveRecord { key: of_address(*address) });
            }
        }
        self.write_list(&mut plan, &mut self.lists.clone(), owner, |list| {
            list.retain(|address| !addresses.contains(address));
        });
        if plan.steps().is_empty() && self.lists.get(&of_owner(owner)).is_none_or(BTreeSet::is_empty) {
            plan.owned(Step::RemoveRecord { key: of_owner(owner) });
        }
        plan
    }

    /// Appends the step that changes an owner's list, if anything changes.
    fn write_list(
        &self,
        plan: &mut Plan,
        lists: &mut BTreeMap<RecordKey, BTreeSet<IpAddr>>,
        owner: &Attachment,
        change: impl FnOnce(&mut BTreeSet<IpAddr>),
    ) {
        let key = of_owner(owner);
        let list = lists.entry(key.clone()).or_default();
        let before = list.clone();
        change(list);
        if *list == before {
            return;
        }
        plan.owned(if list.is_empty() {
            Step::RemoveRecord { key }
        } else {
            Step::WriteRecord { key, text: list.iter().map(|address| format!("{address}\n")).collect() }
        });
    }
}

fn listed(owner: &Attachment, records: &mut dyn Records) -> Result<BTreeSet<IpAddr>, Error> {
    let text = records.read(&of_owner(owner))?.unwrap_or_default();
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn of_address(address: IpAddr) -> RecordKey {
    RecordKey::of_address(CLAIMS, address)
}

fn of_owner(owner: &Attachment) -> RecordKey {
    RecordKey::hashed(CLAIMS, "owner-", &text(owner))
}

fn text(owner: &Attachment) -> String {
    format!("{} {} {}", owner.network, owner.container, owner.ifname)
}

fn with(earlier: Option<&Claim>, backend: &RuleBackend) -> Vec<RuleBackend> {
    let others = earlier.into_iter().flat_map(|claim| &claim.backends).filter(|other| *other != backend);
    others.chain([backend]).cloned().collect()
}

impl fmt::Display for Claim {
    /// Where nothing but iptables holds rules, that goes without saying.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(&self.owner))?;
        match &self.backends[..] {
            [RuleBackend::Iptables] => Ok(()),
            backends => backends.iter().try_for_each(|backend| write!(f, " {backend}")),
        }
    }
}

impl Claim {
    /// Reads what [`Claim`] displays. None of the three names can hold a blank, nor can a back end.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let network = NetworkName::parse(words.next()?).ok()?;
        let container = ContainerId::parse(words.next()?).ok()?;
        let ifname = IfName::parse(words.next()?).ok()?;
        let mut backends = words.map(RuleBackend::parse).collect::<Option<Vec<_>>>()?;
        if backends.is_empty() {
            backends.push(RuleBackend::Iptables);
        }
        Some(Self { owner: Attachment { network, container, ifname }, backends })
    }
}

#[cfg(test)]
mod tests;
