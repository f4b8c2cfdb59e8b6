//! Claims: which attachment owns the packet filter's rules for an address.
//!
//! The plugin's rules name only an address, byte for byte as the reference's do. A late DEL of an old container must
//! not remove the rules of the address's new owner. So the owner of each address is recorded, with the back ends that
//! hold rules for it, and for each owner its addresses.
//!
//! A claim may outlive its owner, since the reference's DEL does not remove it, and an owner may still live when
//! another one claims its address, in another network. So the namespace of an owner is recorded as well, and the
//! former owners of an address. This module decides which records a claim changes; steps of a plan write them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::{Attachment, NetworkName};
use cni_model::plan::{Plan, Step};
use cni_model::record::{RecordKey, RecordKind};
use cni_netfilter::firewalld::Zone;
use cni_plugin::host::Host;
use cni_plugin::lock::LockName;
use cni_plugin::namespace::RecordedNamespace;
use cni_plugin::owner::{self, RecordedOwner};
use cni_plugin::records::Records;

/// The records: of each address by its text, of each owner by a hash.
const CLAIMS: RecordKind = RecordKind::new("claims");

/// The owner of the rules for an address, and the back ends that may hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The owner.
    pub owner: Attachment,
    /// The back ends, each once, the last used one last.
    pub backends: Vec<RuleBackend>,
}

/// Locks addresses until the plugin ends, in one order, since two plugins would wait for each other otherwise: an ADD that makes rules
/// for an address waits until DEL or GC has looked at the claim of the address and removed its rules.
pub fn lock(addresses: impl IntoIterator<Item = IpAddr>, host: &mut dyn Host) {
    for address in addresses.into_iter().collect::<BTreeSet<_>>() {
        if let Err(error) = host.lock(&LockName::address(address)) {
            log::warn!("another container may get {address} at this moment: {}", error.in_full());
        }
    }
}

/// The claim of an address; `None` if it is missing or cannot be parsed.
pub fn find(address: IpAddr, records: &mut dyn Records) -> Result<Option<Claim>, Error> {
    Ok(records.read(&of_address(address))?.and_then(|text| Claim::parse(&text)))
}

/// The addresses that attachments of a network have claimed, in order.
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

/// The owners of claims, except these.
pub fn owners_but(known: &[&Attachment], records: &mut dyn Records) -> Result<Vec<RecordedOwner>, Error> {
    let mut found = Vec::new();
    for key in owner::keys_but(known, CLAIMS, records)? {
        let OwnerRecord { addresses, home } = OwnerRecord::read_at(&key, records)?;
        let mut own = Vec::new();
        for address in addresses {
            if let Some(claim) = find(address, records)?.filter(|claim| key_of(&claim.owner) == key) {
                own.push((address, claim.owner));
            }
        }
        if let Some((_, at)) = own.first().cloned() {
            found.push(RecordedOwner { at, home, addresses: own.into_iter().map(|(address, _)| address).collect() });
        }
    }
    Ok(found)
}

/// The home of an owner; `None` when it was not recorded.
pub fn home_of(owner: &Attachment, records: &mut dyn Records) -> Result<Option<RecordedNamespace>, Error> {
    Ok(OwnerRecord::read(owner, records)?.home)
}

/// The former owners of an address, the most recent one last. One whose namespace was not recorded is left out.
pub fn former_owners(
    address: IpAddr,
    records: &mut dyn Records,
) -> Result<Vec<(Attachment, RecordedNamespace)>, Error> {
    let text = records.read(&of_former(address))?.unwrap_or_default();
    Ok(text.lines().filter_map(parse_former).collect())
}

/// The records about some addresses, and about all their owners.
#[derive(Clone, Debug, Default)]
pub struct ClaimRegister {
    claims: BTreeMap<IpAddr, Claim>,
    /// Addresses whose record is unreadable.
    torn: BTreeSet<IpAddr>,
    former: BTreeMap<IpAddr, Vec<(Attachment, RecordedNamespace)>>,
    lists: BTreeMap<RecordKey, OwnerRecord>,
}

impl ClaimRegister {
    /// Reads the records of an owner and of some addresses.
    pub fn observe(owner: &Attachment, addresses: &[IpAddr], records: &mut dyn Records) -> Result<Self, Error> {
        let mut register = Self::default();
        register.observe_list(owner, records)?;
        for address in addresses {
            let Some(text) = records.read(&of_address(*address))? else { continue };
            register.former.insert(*address, former_owners(*address, records)?);
            match Claim::parse(&text) {
                Some(claim) => {
                    register.observe_list(&claim.owner, records)?;
                    register.claims.insert(*address, claim);
                }
                None => drop(register.torn.insert(*address)),
            }
        }
        Ok(register)
    }

    fn observe_list(&mut self, owner: &Attachment, records: &mut dyn Records) -> Result<(), Error> {
        self.lists.insert(key_of(owner), OwnerRecord::read(owner, records)?);
        Ok(())
    }

    /// Plans the records by which `owner` owns the rules of `addresses`. `backend` is added to the back ends that are recorded for
    /// an address, and an earlier owner becomes a former one. The owner's list is written first: if the process is killed then,
    /// all claimed addresses can still be found.
    pub fn claim(
        &self,
        owner: &Attachment,
        home: Option<&RecordedNamespace>,
        addresses: &[IpAddr],
        backend: &RuleBackend,
    ) -> Plan {
        let mut plan = Plan::default();
        let mut lists = self.lists.clone();
        write_list(&mut plan, &mut lists, owner, |list| {
            list.addresses.extend(addresses);
            list.home = home.cloned().or(list.home.take());
        });
        for address in addresses {
            let earlier = self.claims.get(address);
            let former = earlier.map(|claim| &claim.owner).filter(|former| *former != owner);
            self.write_former(&mut plan, *address, |all| {
                let home = former.and_then(|former| self.lists.get(&key_of(former))?.home.clone());
                all.extend(former.cloned().zip(home));
                all.retain(|(former, _)| former != owner);
            });
            let claim = Claim { owner: owner.clone(), backends: with(earlier, backend) };
            if earlier != Some(&claim) {
                plan.owned(Step::WriteRecord { key: of_address(*address), text: claim.to_string() });
            }
            if let Some(former) = former {
                write_list(&mut plan, &mut lists, former, |list| {
                    list.addresses.remove(address);
                });
            }
        }
        plan
    }

    /// Removes the claims of `owner` to some addresses; claims of other owners and unreadable ones stay. An unreadable
    /// list of the owner is removed too, with what a killed ADD has left.
    pub fn release(&self, owner: &Attachment, addresses: &[IpAddr]) -> Plan {
        let mut plan = Plan::default();
        for address in addresses {
            let is_own = self.claims.get(address).is_some_and(|claim| claim.owner == *owner);
            if is_own || self.torn.contains(address) {
                plan.owned(Step::RemoveRecord { key: of_address(*address) });
                self.write_former(&mut plan, *address, Vec::clear);
            }
        }
        write_list(&mut plan, &mut self.lists.clone(), owner, |list| {
            list.addresses.retain(|address| !addresses.contains(address));
        });
        if self.lists.get(&key_of(owner)).is_none_or(|list| list.addresses.is_empty()) {
            plan.owned(Step::RemoveRecord { key: key_of(owner) });
        }
        plan
    }

    /// Records that an address is one of its former owners' again.
    pub fn hand_back(&self, address: IpAddr, to: &Attachment, home: &RecordedNamespace) -> Plan {
        let Some(claim) = self.claims.get(&address) else { return Plan::default() };
        let mut plan = Plan::default();
        let mut lists = self.lists.clone();
        write_list(&mut plan, &mut lists, to, |list| {
            list.addresses.insert(address);
            list.home = Some(home.clone());
        });
        let restored = Claim { owner: to.clone(), backends: claim.backends.clone() };
        plan.owned(Step::WriteRecord { key: of_address(address), text: restored.to_string() });
        self.write_former(&mut plan, address, |all| all.retain(|(former, _)| former != to));
        write_list(&mut plan, &mut lists, &claim.owner, |list| {
            list.addresses.remove(&address);
        });
        plan
    }

    /// Removes an owner from the former owners of an address.
    pub fn forget(&self, address: IpAddr, owner: &Attachment) -> Plan {
        let mut plan = Plan::default();
        self.write_former(&mut plan, address, |all| all.retain(|(former, _)| former != owner));
        plan
    }

    /// Appends the step that changes the former owners of an address, if they change.
    fn write_former(
        &self,
        plan: &mut Plan,
        address: IpAddr,
        change: impl FnOnce(&mut Vec<(Attachment, RecordedNamespace)>),
    ) {
        let before = self.former.get(&address).cloned().unwrap_or_default();
        let mut after = before.clone();
        change(&mut after);
        if after != before {
            let lines = after.iter().map(|(owner, home)| format!("{} {home}\n", owner::text(owner)));
            plan.owned(write_or_remove(of_former(address), lines.collect()));
        }
    }
}

/// The record of an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerRecord {
    /// The addresses that it has claimed, or was about to claim when it was stopped. Others may have claimed them since.
    pub addresses: BTreeSet<IpAddr>,
    /// Its namespace, if it was recorded.
    pub home: Option<RecordedNamespace>,
}

/// The beginning of the line with the namespace; all other lines are addresses.
const HOME: &str = "netns ";

impl OwnerRecord {
    /// Reads the record of an owner; an empty one if it is missing.
    pub fn read(owner: &Attachment, records: &mut dyn Records) -> Result<Self, Error> {
        Self::read_at(&key_of(owner), records)
    }

    fn read_at(key: &RecordKey, records: &mut dyn Records) -> Result<Self, Error> {
        let text = records.read(key)?.unwrap_or_default();
        Ok(Self {
            addresses: text.lines().filter_map(|line| line.parse().ok()).collect(),
            home: text.lines().find_map(|line| RecordedNamespace::parse(line.strip_prefix(HOME)?)),
        })
    }
}

impl fmt::Display for OwnerRecord {
    /// An owner without addresses needs no record.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses.iter().try_for_each(|address| writeln!(f, "{address}"))?;
        match &self.home {
            Some(home) if !self.addresses.is_empty() => writeln!(f, "{HOME}{home}"),
            Some(_) | None => Ok(()),
        }
    }
}

/// Appends the step that changes what is recorded of an owner, if anything changes.
fn write_list(
    plan: &mut Plan,
    lists: &mut BTreeMap<RecordKey, OwnerRecord>,
    owner: &Attachment,
    change: impl FnOnce(&mut OwnerRecord),
) {
    let key = key_of(owner);
    let list = lists.entry(key.clone()).or_default();
    let before = list.to_string();
    change(list);
    let after = list.to_string();
    if after != before {
        plan.owned(write_or_remove(key, after));
    }
}

fn write_or_remove(key: RecordKey, text: String) -> Step {
    if text.is_empty() { Step::RemoveRecord { key } } else { Step::WriteRecord { key, text } }
}

fn parse_former(line: &str) -> Option<(Attachment, RecordedNamespace)> {
    let mut words = line.splitn(4, ' ');
    let owner = owner::parse(&mut words)?;
    Some((owner, RecordedNamespace::parse(words.next()?)?))
}

fn of_address(address: IpAddr) -> RecordKey {
    RecordKey::of_address(CLAIMS, address)
}

fn of_former(address: IpAddr) -> RecordKey {
    RecordKey::hashed(CLAIMS, "former-", &address.to_string())
}

fn key_of(owner: &Attachment) -> RecordKey {
    owner::key(CLAIMS, owner)
}

fn with(earlier: Option<&Claim>, backend: &RuleBackend) -> Vec<RuleBackend> {
    let others = earlier.into_iter().flat_map(|claim| &claim.backends).filter(|other| *other != backend);
    others.chain([backend]).cloned().collect()
}

impl fmt::Display for Claim {
    /// Prints the back ends, unless iptables is the only one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&owner::text(&self.owner))?;
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
        let owner = owner::parse(&mut words)?;
        let mut backends = words.map(RuleBackend::parse).collect::<Option<Vec<_>>>()?;
        if backends.is_empty() {
            backends.push(RuleBackend::Iptables);
        }
        Some(Self { owner, backends })
    }
}

/// The back end that holds the rules for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleBackend {
    /// The tables of iptables.
    Iptables,
    /// A table of nf_tables.
    Nftables,
    /// firewalld, in a zone.
    Firewalld(Zone),
}

impl RuleBackend {
    /// Reads what [`RuleBackend`] displays: one word.
    pub fn parse(word: &str) -> Option<Self> {
        match word.split_once(':') {
            None if word == "iptables" => Some(Self::Iptables),
            None if word == "nftables" => Some(Self::Nftables),
            Some(("firewalld", zone)) => Zone::parse(zone).ok().map(Self::Firewalld),
            None | Some(_) => None,
        }
    }
}

impl fmt::Display for RuleBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iptables => f.write_str("iptables"),
            Self::Nftables => f.write_str("nftables"),
            Self::Firewalld(zone) => write!(f, "firewalld:{zone}"),
        }
    }
}

#[cfg(test)]
mod tests;
