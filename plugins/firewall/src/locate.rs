//! Finds the back end that holds the rules of an address, or that should hold them.
//!
//! ADD records it with the claim to the address, so DEL and CHECK look in the right place even if firewalld has been
//! started or stopped since. Without a record, as for containers of the reference, the configuration says where to
//! look.

use std::collections::BTreeSet;
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
use cni_plugin::ledger::{ADDRESS, Entry};
use cni_plugin::namespace::{Life, OnHost as _, RecordedNamespace};

use crate::claims::{self, Claimants, LeavingAddress, RuleBackend};
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

/// The back ends that hold the rules of an attachment's addresses: the last used ones, or the one that ADD would use
/// now. Empty for no rules.
pub fn observe_backends(
    config: &Config,
    own: Option<&Entry>,
    addresses: &[IpAddr],
    host: &mut dyn Host,
) -> Result<Vec<(RuleBackend, Vec<IpAddr>)>, Error> {
    if config.backend == BackendKey::None {
        return Ok(Vec::new());
    }
    let mut found: Vec<(RuleBackend, Vec<IpAddr>)> = Vec::new();
    for address in addresses.iter().copied() {
        let backend = match own.and_then(|own| claims::backends(own, address).last()) {
            Some(recorded) => Some(recorded),
            None if config.backend == BackendKey::Nftables => backend_with_rules(config, address, host)?,
            None => choose(config, families(addresses), host)?,
        };
        let Some(backend) = backend else { continue };
        match found.iter_mut().find(|(other, _)| *other == backend) {
            Some((_, addresses)) => addresses.push(address),
            None => found.push((backend, vec![address])),
        }
    }
    Ok(found)
}

/// What is removed with an attachment: the addresses of the runtime's result and the claimed ones.
pub fn observe_leaving(
    request: &Request,
    owner: &Attachment,
    host: &mut dyn Host,
) -> Result<Vec<LeavingAddress>, Error> {
    let search = search(request);
    let result = remembered(request);
    let own = host.ledger().entry(owner)?;
    let former = FormerHolder { at: owner, home: own.as_ref().and_then(|own| own.namespace.as_ref()), result: &result };
    let mut leaving = Vec::new();
    let all = sorted(addresses(&result).into_iter().chain(own.iter().flat_map(claims::addresses)));
    claims::lock(all.iter().copied(), host);
    for address in all {
        let mut claimants = observe_left(address, owner, host)?;
        // A process was killed when it had removed what leads to this claim.
        let is_lost =
            |own: &&Entry| claims::addresses(own).any(|one| one == address) && !claimants.leaving.contains(own);
        claimants.leaving.extend(own.iter().filter(is_lost).cloned().collect::<Vec<_>>());
        let mut leave = claimants.leave(address);
        if claimants == Claimants::default() {
            leave.backends = likely_backends(&search, address, host)?;
        }
        if !leave.owners.contains(owner) {
            leave.owners.push(owner.clone());
        }
        if !leave.backends.is_empty() && is_taken_over(address, former, request.netns(), host)? {
            leave.backends.clear();
        }
        leaving.push(leave);
    }
    Ok(leaving)
}

/// What is removed of attachments that the runtime no longer knows. They are found by their claims, since the rules name no container.
pub fn observe_stale(
    is_stale: &dyn Fn(&Attachment) -> bool,
    host: &mut dyn Host,
) -> Result<Vec<LeavingAddress>, Error> {
    let claimed = host.ledger().holders(ADDRESS, &|_| true)?;
    let stale = claimed.iter().filter(|entry| is_stale(&entry.at));
    let addresses: BTreeSet<IpAddr> = stale.flat_map(claims::addresses).collect();
    claims::lock(addresses.iter().copied(), host);
    let mut leaving = Vec::new();
    for address in addresses {
        // What is not stale keeps its claim, also where it has lost the address.
        let claimants = Claimants::observe(address, host, |one, host| {
            Ok(if is_stale(&one.at) { Some(false) } else { is_there(one, address, host)?.then_some(true) })
        })?;
        let mut stale = claimants.leaving.iter().filter(|entry| is_stale(&entry.at)).peekable();
        if stale.peek().is_none() {
            continue;
        }
        let mut leave = claimants.leave(address);
        let mut is_anothers = !leave.backends.is_empty();
        for Entry { at, namespace, .. } in stale {
            let former = FormerHolder { at, home: namespace.as_ref(), result: &CniResult::default() };
            is_anothers = is_anothers && is_taken_over(address, former, None, host)?;
        }
        if is_anothers {
            leave.backends.clear();
        }
        leaving.push(leave);
    }
    Ok(leaving)
}

/// Finds who has claimed an address that an attachment leaves.
fn observe_left(address: IpAddr, owner: &Attachment, host: &mut dyn Host) -> Result<Claimants, Error> {
    let claimants =
        Claimants::observe(address, host, |one, host| Ok(Some(one.at != *owner && is_there(one, address, host)?)))?;
    if let Some(other) = claimants.staying.first() {
        log::info!("{address} belongs to container {} now; its rules stay", other.at.container);
    }
    Ok(claimants)
}

/// Finds who has claimed an address of an attachment, which stays if it has. One of its network that cannot be looked for has lost it, or
/// the address would not have been assigned again.
pub fn observe_claimants(address: IpAddr, own: &Attachment, host: &mut dyn Host) -> Result<Claimants, Error> {
    let has_lost = |one: &Entry| one.namespace.is_none() && one.at.network == own.network;
    Claimants::observe(address, host, |one, host| {
        Ok(Some(one.at == *own || !has_lost(one) && is_there(one, address, host)?))
    })
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

/// Whether a container of other plugins has got the address of one that has left. There may be no DEL before, as after a restart of
/// the machine, or only the reference's, which does not remove our claim.
fn is_taken_over(
    address: IpAddr,
    former: FormerHolder<'_>,
    netns: Option<&str>,
    host: &mut dyn Host,
) -> Result<bool, Error> {
    if !may_have_left(former.home, netns, address, host)? {
        return Ok(false);
    }
    let found = next_holder::find(address, former, host)?;
    if let Some(link) = &found {
        log::info!("{address} belongs to the container of {} now; its rules stay", link.name);
    }
    Ok(found.is_some())
}

/// Whether the owner of a claim may still have the address: its namespace still exists and has it, or cannot be examined. The
/// reference's DEL does not remove our claim.
fn is_there(owner: &Entry, address: IpAddr, host: &mut dyn Host) -> Result<bool, Error> {
    let Some(home) = &owner.namespace else { return Ok(true) };
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

/// Whether an attachment has its interface, but its namespace, in which `found` are the addresses, has none of its own: a sandbox such
/// as gVisor takes them from the kernel, and uses them itself.
fn is_used_by_a_sandbox(owner: &Entry, found: &[Address], host: &mut dyn Host) -> Result<bool, Error> {
    let is_usual = |address: IpAddr| !address.is_loopback() && is_global(&address);
    if found.iter().any(|one| is_usual(one.cidr.address())) {
        return Ok(false);
    }
    match AttachmentRecord::of(owner) {
        Some(record) if record.link.is_some() => record.has_interface(host),
        Some(_) | None => Ok(false),
    }
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
