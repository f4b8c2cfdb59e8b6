//! Finds the back end that holds the rules of an address, or that should hold them.
//!
//! ADD records it with the claim of the address, so DEL and CHECK look in the right place even if firewalld has been
//! started or stopped since. Without a record, as for containers of the reference, the configuration says where to
//! look.

use std::net::IpAddr;

use cni_core::cidr::is_global;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::{Attachment, ChainName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::next_holder::{self, FormerHolder};
use cni_model::link::Address;
use cni_model::plan::Ns;
use cni_netfilter::iptables::IptablesTable;
use cni_netfilter::{Backend, Ruleset, unless_absent};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::namespace::{Life, RecordedNamespace};

use crate::claims::{self, Claim, OwnerRecord, RuleBackend};
use crate::config::{BackendKey, Config, FORWARD_CHAIN, Keys, RuleSearch};
use crate::{iptables, nftables};

/// The result of the plugins before.
pub fn prev_result(request: &Request) -> Result<CniResult, Error> {
    let details = "chain firewall behind the plugin that assigns addresses";
    let alone = || fail!(InvalidConfig, "missing prevResult from earlier plugin", details: "{details}");
    request.prev_result()?.ok_or_else(alone)
}

/// The addresses of a result, IPv4 first, each once. The interface that they are on does not matter.
pub fn addresses(result: &CniResult) -> Vec<IpAddr> {
    sorted(result.ips.iter().map(|ip| ip.address.address()))
}

/// Addresses by family, IPv4 first, each once.
pub fn sorted(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut unique: Vec<IpAddr> = Vec::new();
    for address in addresses {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    unique.sort_by_key(|address| Family::of(*address));
    unique
}

/// The families of some addresses, one for each.
pub fn families(addresses: &[IpAddr]) -> impl Iterator<Item = Family> {
    addresses.iter().map(|address| Family::of(*address))
}

/// An address whose rules are to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedAddress {
    pub address: IpAddr,
    /// The owner.
    pub owner: Attachment,
    /// The back ends that may hold its rules.
    pub backends: Vec<RuleBackend>,
}

/// The back end for a new attachment: firewalld if it runs, otherwise iptables, as in the reference, unless the
/// configuration names one. On a host without iptables, where the reference fails, it is nf_tables. `None` for no
/// rules.
pub fn choose(
    config: &Config,
    families: impl IntoIterator<Item = Family>,
    host: &mut dyn Host,
) -> Result<Option<RuleBackend>, Error> {
    let firewalld = || RuleBackend::Firewalld(config.zone.clone());
    Ok(match config.backend {
        BackendKey::Iptables => Some(RuleBackend::Iptables),
        BackendKey::Nftables => Some(RuleBackend::Nftables),
        BackendKey::Firewalld => Some(firewalld()),
        BackendKey::None => None,
        BackendKey::Auto if host.firewalld().is_running() => Some(firewalld()),
        BackendKey::Auto => Some(match Backend::choose(host.netfilter(Ns::Host)?, IptablesTable::Filter, families) {
            Backend::Iptables => RuleBackend::Iptables,
            Backend::Nftables => RuleBackend::Nftables,
        }),
    })
}

/// An address of an attachment, with the claim of it, which may be another's.
pub type ClaimedAddress = (IpAddr, Option<Claim>);

/// Finds the claim of each address.
pub fn observe_claims(addresses: &[IpAddr], host: &mut dyn Host) -> Result<Vec<ClaimedAddress>, Error> {
    addresses.iter().map(|address| Ok((*address, claims::find(*address, host.records())?))).collect()
}

/// The back ends that hold the rules of an attachment's addresses: the last used ones, or the one that ADD would use
/// now. Empty for no rules.
pub fn observe_backends(
    config: &Config,
    owner: &Attachment,
    addresses: Vec<ClaimedAddress>,
    host: &mut dyn Host,
) -> Result<Vec<(RuleBackend, Vec<IpAddr>)>, Error> {
    if config.backend == BackendKey::None {
        return Ok(Vec::new());
    }
    let mut found: Vec<(RuleBackend, Vec<IpAddr>)> = Vec::new();
    let all: Vec<IpAddr> = addresses.iter().map(|(address, _)| *address).collect();
    for (address, claim) in addresses {
        let own = claim.filter(|claim| claim.owner == *owner);
        let backend = match own.and_then(|mut claim| claim.backends.pop()) {
            Some(recorded) => Some(recorded),
            None if config.backend == BackendKey::Nftables => backend_with_rules(config, address, host)?,
            None => choose(config, families(&all), host)?,
        };
        let Some(backend) = backend else { continue };
        match found.iter_mut().find(|(other, _)| *other == backend) {
            Some((_, addresses)) => addresses.push(address),
            None => found.push((backend, vec![address])),
        }
    }
    Ok(found)
}

/// What to do about an address when one of its owners is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRemoval {
    /// Its rules go.
    Owned(OwnedAddress),
    /// A former owner still has the address; the rules are its own again.
    HandedBack { address: IpAddr, to: Attachment, home: RecordedNamespace },
    /// Its rules are another's, and stay.
    Lost { address: IpAddr },
    /// Its rules are those of a container of other plugins by now, and stay; the owner's claim goes.
    TakenOver { address: IpAddr, owner: Attachment },
}

/// The addresses that are removed with an attachment: those of the runtime's result and the claimed ones, except
/// addresses that belong to another attachment by now.
pub fn observe_leaving(
    request: &Request,
    owner: &Attachment,
    host: &mut dyn Host,
) -> Result<Vec<AddressRemoval>, Error> {
    let search = search(request);
    let result = remembered(request);
    let OwnerRecord { addresses: claimed, home } = OwnerRecord::read(owner, host.records())?;
    let mut leaving = Vec::new();
    let all = sorted(addresses(&result).into_iter().chain(claimed));
    claims::lock(all.iter().copied(), host);
    for address in all {
        let claim = claims::find(address, host.records())?;
        if let Some(other) = claim.as_ref().map(|claim| &claim.owner).filter(|other| *other != owner)
            && is_there(other, address, host)?
        {
            log::info!("{address} belongs to container {} now; its rules stay", other.container);
            leaving.push(AddressRemoval::Lost { address });
            continue;
        }
        let removal = match claim {
            Some(claim) => observe_claimed(address, claim, &[owner], host)?,
            None => AddressRemoval::Owned(OwnedAddress {
                address,
                owner: owner.clone(),
                backends: likely_backends(&search, address, host)?,
            }),
        };
        let former = FormerHolder { at: owner, home: home.as_ref(), result: &result };
        leaving.push(unless_taken_over(removal, address, former, request.netns(), host)?);
    }
    Ok(leaving)
}

/// What to do about a claim of an attachment that the runtime no longer knows.
pub fn observe_stale(address: IpAddr, claim: Claim, host: &mut dyn Host) -> Result<AddressRemoval, Error> {
    let (owner, result) = (claim.owner.clone(), CniResult::default());
    let removal = observe_claimed(address, claim, &[], host)?;
    let home = claims::home_of(&owner, host.records())?;
    unless_taken_over(removal, address, FormerHolder { at: &owner, home: home.as_ref(), result: &result }, None, host)
}

/// The addresses of a new attachment that are still claimed by others, which no longer have them: their DEL was never
/// called, or was the reference's.
pub fn observe_abandoned(
    new: &Attachment,
    addresses: &[IpAddr],
    host: &mut dyn Host,
) -> Result<Vec<AddressRemoval>, Error> {
    let mut leaving = Vec::new();
    for address in addresses.iter().copied() {
        let Some(claim) = claims::find(address, host.records())?.filter(|claim| claim.owner != *new) else {
            continue;
        };
        if !is_there(&claim.owner, address, host)? {
            leaving.push(observe_claimed(address, claim, &[new], host)?);
        }
    }
    Ok(leaving)
}

/// What to do about a claim that is no longer needed, when some attachments are removed.
fn observe_claimed(
    address: IpAddr,
    claim: Claim,
    going: &[&Attachment],
    host: &mut dyn Host,
) -> Result<AddressRemoval, Error> {
    let Claim { owner, backends } = claim;
    for (former, home) in claims::former_owners(address, host.records())?.into_iter().rev() {
        if !going.contains(&&former) && has_address(&former, &home, address, host)? {
            return Ok(AddressRemoval::HandedBack { address, to: former, home });
        }
    }
    Ok(AddressRemoval::Owned(OwnedAddress { address, owner, backends }))
}

/// Whether an attachment may have lost an address: its recorded namespace does not have it, or has ended; or, if none is
/// recorded, `netns` cannot be entered.
fn may_have_left(
    home: Option<&RecordedNamespace>,
    netns: Option<&str>,
    address: IpAddr,
    host: &mut dyn Host,
) -> Result<bool, Error> {
    match home {
        Some(home) if home.life(None, host) == Life::Alive => Ok(!holds(home, address, host)?),
        Some(_) => Ok(true),
        None => Ok(netns.is_none_or(|path| host.enter(path).is_err())),
    }
}

/// Spares the rules of an address that a container of other plugins has by now. There may be no DEL before, as after a restart of
/// the machine, or only the reference's, which does not remove our claim.
fn unless_taken_over(
    removal: AddressRemoval,
    address: IpAddr,
    former: FormerHolder<'_>,
    netns: Option<&str>,
    host: &mut dyn Host,
) -> Result<AddressRemoval, Error> {
    let AddressRemoval::Owned(OwnedAddress { owner, .. }) = &removal else { return Ok(removal) };
    if !may_have_left(former.home, netns, address, host)? {
        return Ok(removal);
    }
    let Some(link) = next_holder::find(address, former, host)? else { return Ok(removal) };
    log::info!("{address} belongs to the container of {} now; its rules stay", link.name);
    Ok(AddressRemoval::TakenOver { address, owner: owner.clone() })
}

/// Whether the owner of a claim may still have the address. The reference's DEL does not remove our claim.
pub fn is_there(owner: &Attachment, address: IpAddr, host: &mut dyn Host) -> Result<bool, Error> {
    match claims::home_of(owner, host.records())? {
        Some(home) => has_address(owner, &home, address, host),
        None => Ok(true),
    }
}

/// Whether an attachment has its interface, but its namespace, in which `found` are the addresses, has none of its own: a sandbox such
/// as gVisor takes them from the kernel, and uses them itself.
fn is_used_by_a_sandbox(owner: &Attachment, found: &[Address], host: &mut dyn Host) -> Result<bool, Error> {
    let is_usual = |address: IpAddr| !address.is_loopback() && is_global(&address);
    if found.iter().any(|one| is_usual(one.cidr.address())) {
        return Ok(false);
    }
    match AttachmentRecord::read(owner, host.records())? {
        Some(record) if record.link.is_some() => record.has_interface(host),
        Some(_) | None => Ok(false),
    }
}

/// Whether the namespace of an attachment still exists and has an address. A namespace that cannot be examined may have it.
fn has_address(
    owner: &Attachment,
    home: &RecordedNamespace,
    address: IpAddr,
    host: &mut dyn Host,
) -> Result<bool, Error> {
    match home.life(None, host) {
        Life::Alive => {}
        Life::Dead => return Ok(false),
        Life::Unknown(reason) => {
            log::warn!("{reason}; it counts as having {address}");
            return Ok(true);
        }
    }
    let Some(found) = home.addresses(host)? else { return Ok(true) };
    Ok(has(&found, address) || is_used_by_a_sandbox(owner, &found, host)?)
}

/// Whether a namespace that lives has an address. One whose addresses cannot be listed may have it.
fn holds(namespace: &RecordedNamespace, address: IpAddr, host: &mut dyn Host) -> Result<bool, Error> {
    Ok(namespace.addresses(host)?.is_none_or(|found| has(&found, address)))
}

fn has(found: &[Address], address: IpAddr) -> bool {
    found.iter().any(|one| one.cidr.address() == address)
}

fn remembered(request: &Request) -> CniResult {
    let remembered = request.prev_result().unwrap_or_else(|error| {
        log::warn!("DEL continues without prevResult: {error}: {}", error.details());
        None
    });
    remembered.unwrap_or_default()
}

/// A configuration that cannot be read does not stop DEL.
fn search(request: &Request) -> RuleSearch {
    match request.decode::<Keys>() {
        Ok(keys) => keys.into_search(),
        Err(error) => {
            log::warn!("the configuration cannot be read; DEL looks for rules as if it named no backend: {error}");
            Keys::default().into_search()
        }
    }
}

/// The back ends that may hold rules for an address without a record. The reference does not know the value `nftables`, and chooses
/// then as if the configuration named none. iptables may have been missing when the rules were made, or be missing since.
fn likely_backends(search: &RuleSearch, address: IpAddr, host: &mut dyn Host) -> Result<Vec<RuleBackend>, Error> {
    let firewalld = RuleBackend::Firewalld(search.zone.clone());
    let found = match search.backend {
        BackendKey::Iptables => Some(RuleBackend::Iptables),
        BackendKey::Firewalld => Some(firewalld),
        BackendKey::None => None,
        BackendKey::Auto | BackendKey::Nftables if nftables::observe_held(address, host)? => {
            Some(RuleBackend::Nftables)
        }
        BackendKey::Auto | BackendKey::Nftables if is_source(search, address, host) => Some(firewalld),
        BackendKey::Auto | BackendKey::Nftables if has_iptables(Family::of(address), host)? => {
            Some(RuleBackend::Iptables)
        }
        BackendKey::Auto | BackendKey::Nftables => None,
    };
    Ok(found.into_iter().collect())
}

/// Whether there may be rules of iptables: it can be used, or rules are left in nf_tables without it.
fn has_iptables(family: Family, host: &mut dyn Host) -> Result<bool, Error> {
    let (tables, table) = (host.netfilter(Ns::Host)?.iptables(), IptablesTable::Filter);
    Ok(tables.absence(family, table).is_none()
        || unless_absent(tables.list(family, table, &ChainName::fixed(FORWARD_CHAIN)))?.flatten().is_some())
}

/// The back end that holds rules for an address without a record, if the configuration says `nftables`: the reference
/// does not know this value and chooses another, so its containers have no rules there.
fn backend_with_rules(config: &Config, address: IpAddr, host: &mut dyn Host) -> Result<Option<RuleBackend>, Error> {
    let search = RuleSearch { backend: config.backend, zone: config.zone.clone() };
    for backend in likely_backends(&search, address, host)? {
        match &backend {
            RuleBackend::Nftables | RuleBackend::Firewalld(_) => return Ok(Some(backend)),
            RuleBackend::Iptables
                if Ruleset::from(iptables::address_alone(address)).missing(host.netfilter(Ns::Host)?)?.is_none() =>
            {
                return Ok(Some(backend));
            }
            RuleBackend::Iptables => {}
        }
    }
    choose(config, [Family::of(address)], host)
}

fn is_source(search: &RuleSearch, address: IpAddr, host: &mut dyn Host) -> bool {
    if !host.firewalld().is_running() {
        return false;
    }
    host.firewalld().has_source(&search.zone, address).unwrap_or_else(|error| {
        log::warn!(
            "cannot query firewalld; treating {address} as not a source of zone {}: {error}: {}",
            search.zone,
            error.details()
        );
        false
    })
}
