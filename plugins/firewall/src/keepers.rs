//! Finds out who is to keep the rules of an address, and who does.
//!
//! ADD writes that down with the claim of the address, so that DEL and CHECK look in the right place even
//! when firewalld has been started or stopped since. Where nothing is recorded, as for the containers
//! of the reference plugin, the configuration says where to look, and the machine whether there is anything.

use std::net::IpAddr;

use cni_core::error::{Error, Failure};
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_netfilter::Ruleset;
use cni_plugin::host::Host;
use cni_plugin::keeper::Keeper;
use cni_plugin::plan::Ns;

use crate::addresses::{addresses, families, sorted};
use crate::config::{Backend, Config, Keys, Search};
use crate::{iptables, nftables};

/// An address whose rules are to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub address: IpAddr,
    /// Who owns it.
    pub owner: Attachment,
    /// Who may keep rules for it.
    pub keepers: Vec<Keeper>,
}

/// Who is to keep the rules of a new attachment: firewalld where it runs and iptables elsewhere, as the
/// reference has it, unless the configuration says otherwise. A host without iptables, on which the reference
/// fails, has nf_tables. `None` when nobody is to keep them.
pub fn choose(
    config: &Config,
    families: impl IntoIterator<Item = Family>,
    host: &mut dyn Host,
) -> Result<Option<Keeper>, Error> {
    let firewalld = || Keeper::Firewalld(config.zone.clone());
    Ok(match config.backend {
        Backend::Iptables => Some(Keeper::Iptables),
        Backend::Nftables => Some(Keeper::Nftables),
        Backend::Firewalld => Some(firewalld()),
        Backend::None => None,
        Backend::Auto if host.firewalld().is_running() => Some(firewalld()),
        Backend::Auto => Some(match cni_netfilter::Backend::choose(host.netfilter(Ns::Host)?, families) {
            cni_netfilter::Backend::Iptables => Keeper::Iptables,
            cni_netfilter::Backend::Nftables => Keeper::Nftables,
        }),
    })
}

/// Who keeps the rules of an attachment's addresses: who made some last, or else who would now. Empty when
/// nobody is to.
///
/// # Errors
/// When a record cannot be read.
pub fn observe_kept(
    config: &Config,
    owner: &Attachment,
    addresses: &[IpAddr],
    host: &mut dyn Host,
) -> Result<Vec<(Keeper, Vec<IpAddr>)>, Error> {
    if config.backend == Backend::None {
        return Ok(Vec::new());
    }
    let mut kept: Vec<(Keeper, Vec<IpAddr>)> = Vec::new();
    for address in addresses {
        let recorded = match host.address_owner(*address)? {
            Some(claimed) if claimed == *owner => host.address_keepers(*address)?.pop(),
            Some(_) | None => None,
        };
        let keeper = match recorded {
            Some(keeper) => Some(keeper),
            None if config.backend == Backend::Nftables => locate(config, *address, host)?,
            None => choose(config, families(addresses), host)?,
        };
        let Some(keeper) = keeper else { continue };
        match kept.iter_mut().find(|(other, _)| *other == keeper) {
            Some((_, addresses)) => addresses.push(*address),
            None => kept.push((keeper, vec![*address])),
        }
    }
    Ok(kept)
}

/// What goes with an attachment: the addresses that the runtime remembers and those that were claimed, but
/// none that belongs to another by now.
///
/// # Errors
/// When a record cannot be read.
pub fn observe_held(request: &Request, owner: &Attachment, host: &mut dyn Host) -> Result<Vec<Held>, Error> {
    let search = search(request);
    let claimed = host.addresses_owned_by(owner)?;
    let mut held = Vec::new();
    for address in sorted(remembered(request).into_iter().chain(claimed)) {
        let keepers = match host.address_owner(address)? {
            Some(other) if other != *owner => {
                log::info!("{address} belongs to container {} by now: its rules stay", other.container);
                continue;
            }
            Some(_) => host.address_keepers(address)?,
            None => find(&search, address, host)?,
        };
        held.push(Held { address, owner: owner.clone(), keepers });
    }
    Ok(held)
}

/// What claimed addresses have.
///
/// # Errors
/// When a record cannot be read.
pub fn observe_claimed(claims: Vec<(IpAddr, Attachment)>, host: &mut dyn Host) -> Result<Vec<Held>, Error> {
    let hold = |(address, owner)| Ok(Held { address, owner, keepers: host.address_keepers(address)? });
    claims.into_iter().map(hold).collect()
}

fn remembered(request: &Request) -> Vec<IpAddr> {
    match request.prev_result() {
        Ok(prev_result) => prev_result.map(|result| addresses(&result)).unwrap_or_default(),
        Err(error) => {
            log::warn!("DEL goes on without prevResult: {error}: {}", error.details());
            Vec::new()
        }
    }
}

/// No key keeps DEL from its work.
fn search(request: &Request) -> Search {
    match request.decode::<Keys>() {
        Ok(keys) => keys.into_search(),
        Err(error) => {
            log::warn!("DEL looks everywhere: {error}");
            Keys::default().into_search()
        }
    }
}

/// Who may keep rules for an address of which nothing is recorded. A backend that was chosen by the
/// plugin has left something in one place at most, and nothing in a place that does not exist. The reference
/// lets the plugin choose for `nftables`, too.
fn find(search: &Search, address: IpAddr, host: &mut dyn Host) -> Result<Vec<Keeper>, Error> {
    let firewalld = Keeper::Firewalld(search.zone.clone());
    let found = match search.backend {
        Backend::Iptables => Some(Keeper::Iptables),
        Backend::Firewalld => Some(firewalld),
        Backend::None => None,
        Backend::Nftables if nftables::observe_held(address, host)? => Some(Keeper::Nftables),
        Backend::Auto | Backend::Nftables if is_source(search, address, host) => Some(firewalld),
        Backend::Auto | Backend::Nftables if host.netfilter(Ns::Host)?.iptables().is_installed(Family::of(address)) => {
            Some(Keeper::Iptables)
        }
        Backend::Auto if nftables::observe_held(address, host)? => Some(Keeper::Nftables),
        Backend::Auto | Backend::Nftables => None,
    };
    Ok(found.into_iter().collect())
}

/// Who keeps rules for an address of which nothing is recorded, where the configuration says
/// `nftables`: the reference does not know that word and chooses itself, so its containers have none there.
fn locate(config: &Config, address: IpAddr, host: &mut dyn Host) -> Result<Option<Keeper>, Error> {
    let search = Search { backend: config.backend, zone: config.zone.clone() };
    for keeper in find(&search, address, host)? {
        match &keeper {
            Keeper::Nftables | Keeper::Firewalld(_) => return Ok(Some(keeper)),
            Keeper::Iptables
                if Ruleset::from(iptables::address_alone(address)).missing(host.netfilter(Ns::Host)?)?.is_none() =>
            {
                return Ok(Some(keeper));
            }
            Keeper::Iptables => {}
        }
    }
    choose(config, [Family::of(address)], host)
}

fn is_source(search: &Search, address: IpAddr, host: &mut dyn Host) -> bool {
    if !host.firewalld().is_running() {
        return false;
    }
    host.firewalld().has_source(&search.zone, address).unwrap_or_else(|error| {
        log::warn!("{address} is taken for no source of zone {}: {error}: {}", search.zone, error.details());
        false
    })
}
