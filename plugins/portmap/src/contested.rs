//! Two containers with one host port: the older one keeps it while it lives, then the newer one gets it.
//!
//! The first matching rule wins, and rules are added after those of others, as in the reference. So the newer
//! container gets the port when the rules of the older one are removed, whichever plugin removes them. A dead
//! container without a DEL would keep the port for ever; therefore ADD removes what such a container has left. The
//! register (`register.rs`) records which containers have a port, so no rule is read unless there is a conflict.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{Attachment, NetworkName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_interface::next_holder::{self, FormerHolder};
use cni_model::plan::Plan;
use cni_netfilter::{Backend, Proto};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::ledger::{self, Entry, PORT};
use cni_plugin::lock::LockName;
use cni_plugin::missing::MissingRecords;
use cni_plugin::namespace::{self, Life, OnHost as _, RecordedNamespace};
use cni_plugin::removal::Removal;

use crate::input::Input;
use crate::register::{ContestingAttachment, PortRegister, PublishedPort, or_warn, recorded_ports, release};
use crate::{iptables, nftables};

/// The ports of a container that others have as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContestedPorts(Vec<ContestingAttachment>);

impl ContestedPorts {
    /// The attachments whose rules of a family come after those of the container.
    pub fn later(&self, family: Family) -> impl Iterator<Item = &Attachment> {
        let has_family = move |rival: &&ContestingAttachment| rival.ports.iter().any(|port| port.family() == family);
        self.0.iter().filter(|rival| rival.is_later).filter(has_family).map(|rival| &rival.entry.at)
    }

    /// The addresses and UDP ports of the host that others keep: connections to these are theirs.
    pub fn kept_from_it(&self) -> Vec<SocketAddr> {
        let ports = self.0.iter().filter(|rival| !rival.is_later).flat_map(|rival| &rival.ports);
        ports.filter(|port| port.proto == Proto::Udp).map(|port| SocketAddr::new(port.address, port.port)).collect()
    }
}

/// ADD: records the ports, removes the rules of dead containers that have some of them, and returns the ports of
/// others.
pub fn claim(input: &Input, journal: &mut Journal<'_>) -> ContestedPorts {
    let published = input.published();
    if published.is_empty() {
        return ContestedPorts::default();
    }
    let register = register_of(input, &published, journal.host());
    let LockedPorts { register, removed, contested } = LockedPorts::take(&register, &published, journal.host());
    for rival in contested.iter().filter(|rival| !rival.is_later && rival.entry.at.container != input.at.container) {
        log::warn!("{}", warning(rival, &input.at));
    }
    let chain = if input.config.backend == Backend::Iptables { input.chains.claim() } else { None };
    let claimed = journal.host().ledger().since_boot().and_then(|now| {
        let steps = [register.claim(&published, chain, now)].into_iter().chain(removed.iter().filter_map(release));
        journal.apply(&Plan::of_owned(steps))
    });
    or_warn(claimed);
    ContestedPorts(contested)
}

/// A repair: returns the ports of others. Nothing is changed.
pub fn observe(input: &Input, host: &mut dyn Host) -> ContestedPorts {
    let published = input.published();
    ContestedPorts(register_of(input, &published, host).rivals(&published))
}

fn register_of(input: &Input, published: &[PublishedPort], host: &mut dyn Host) -> PortRegister {
    PortRegister::observe(&input.at, published.iter().map(|own| own.port), host.ledger())
}

/// A repair: returns what is to be recorded of a container whose rules are there. This comes after the rules, which are restored even if
/// records cannot be written. One without a record gets the place that its rules
/// have among those of others, since the first matching rule wins. Others for which `is_next` holds get their rules after it.
pub fn find_missing_records(
    request: &Request,
    input: &Input,
    is_next: &dyn Fn(&Attachment) -> bool,
    host: &mut dyn Host,
) -> Result<MissingRecords, Error> {
    let published = input.published();
    if published.is_empty() {
        return Ok(MissingRecords::default());
    }
    let (register, mut later) = (register_of(input, &published, host), Vec::new());
    if !register.has_all(&published) {
        for rival in register.rivals(&published) {
            if is_behind(&rival, &input.at, host)?.unwrap_or_else(|| is_next(&rival.entry.at)) {
                later.push(rival.entry.at);
            }
        }
    }
    let namespace = namespace::observe(request, host).unwrap_or_else(|error| {
        log::warn!("the container's namespace is not recorded: {}", error.in_full());
        None
    });
    let restored = register.restore(namespace.as_ref(), &published, &later, host.ledger().since_boot()?);
    let locks = register.ports().map(LockName::host_port).collect();
    Ok(MissingRecords { locks, plan: Plan::of_owned(restored) })
}

/// Whether packets to the contested ports meet the rules of another attachment behind those of `own`; `None` where not both have rules in
/// one chain.
fn is_behind(rival: &ContestingAttachment, own: &Attachment, host: &mut dyn Host) -> Result<Option<bool>, Error> {
    let (mut is_behind, both) = (None, [&rival.entry.at, own]);
    for family in Family::ALL.into_iter().filter(|family| rival.ports.iter().any(|port| port.family() == *family)) {
        for places in [iptables::places(family, both, host)?, nftables::places(family, both, host)?] {
            if let [Some(rival), Some(own)] = places {
                is_behind = Some(own < rival && is_behind != Some(false));
            }
        }
    }
    Ok(is_behind)
}

/// DEL: forgets the ports, after the rules, and removes the rules that dead containers with the same ports have left.
pub fn forget(at: &Attachment, mapped: impl IntoIterator<Item = u16>, host: &mut dyn Host) -> Result<(), Error> {
    let register = PortRegister::observe(at, mapped, host.ledger());
    let LockedPorts { register, removed, .. } = LockedPorts::take(&register, &register.published(), host);
    host.carry_out(&Plan::of_owned(register.own.iter().chain(&removed).filter_map(release)))
}

/// GC: forgets the ports of all attachments of a network that are not valid, and removes their rules in iptables.
pub fn forget_stale(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let holders = host.ledger().holders(PORT, &|_| true)?;
    let mut removal = Removal::new(host);
    for at in holders.iter().map(|entry| &entry.at).filter(|at| ledger::is_invalid(at, network, valid)) {
        // The rules of one interface do not say which it is, so they are still there where another one is valid.
        removal.attempt(|host| iptables::del(host, at, None, &[]));
        removal.attempt(|host| forget(at, [], host));
    }
    removal.finish()
}

/// What is recorded of some ports, locked until the plugin ends, since others may change it at the same time.
struct LockedPorts {
    register: PortRegister,
    /// Dead attachments that had some of the ports until now, and whose rules are removed.
    removed: Vec<Entry>,
    /// The others that have some of the ports.
    contested: Vec<ContestingAttachment>,
}

impl LockedPorts {
    /// Locks the ports of an attachment and all ports of dead attachments that have some of them, and removes the rules of these. All are
    /// locked in one order, since two plugins would wait for each other otherwise.
    fn take(unlocked: &PortRegister, published: &[PublishedPort], host: &mut dyn Host) -> Self {
        let mut dead = unlocked.rivals(published);
        dead.retain(|rival| is_dead(rival, host));
        let of_dead = dead.iter().flat_map(|rival| recorded_ports(&rival.entry));
        let ports: BTreeSet<u16> = unlocked.ports().chain(of_dead).collect();
        for port in ports {
            if let Err(error) = host.lock(&LockName::host_port(port)) {
                log::warn!("a conflict of host port {port} may go unnoticed: {}", error.in_full());
            }
        }
        let register = unlocked.observe_again(host.ledger());
        let key = |rival: &ContestingAttachment| (rival.entry.at.clone(), rival.home.clone());
        let was_dead = |rival: &ContestingAttachment| dead.iter().any(|dead| key(dead) == key(rival));
        let is_removed = |rival: &ContestingAttachment| was_dead(rival) && is_removed(&rival.entry.at, &mut *host);
        let (removed, contested): (Vec<_>, Vec<_>) = register.rivals(published).into_iter().partition(is_removed);
        Self { register, removed: removed.into_iter().map(|rival| rival.entry).collect(), contested }
    }
}

/// Whether a container has ended for certain.
fn is_dead(rival: &ContestingAttachment, host: &mut dyn Host) -> bool {
    let Some(home) = &rival.home else { return false };
    let reason = match home.life(None, host) {
        Life::Alive => return false,
        Life::Unknown(reason) => reason,
        Life::Dead => match is_added_again(&rival.entry.at, Some(home), host) {
            Ok(is_added_again) => return !is_added_again,
            Err(error) => error.in_full(),
        },
    };
    log::info!("a container counts as living: {reason}");
    false
}

/// Whether a container whose namespace, `home`, has ended may live in another one: it was added again. Then its rules lead to
/// an address that it has there. Plugins of others change no record, and their containers are known by the address alone.
pub fn is_added_again(at: &Attachment, home: Option<&RecordedNamespace>, host: &mut dyn Host) -> Result<bool, Error> {
    let Some(targets) = targets(at, host)? else { return Ok(true) };
    if targets.is_empty() {
        return Ok(false);
    }
    if let Some(record) = AttachmentRecord::find(at, host).filter(|record| record.life(host) != Life::Dead) {
        let found = record.addresses(host)?;
        return Ok(found.is_none_or(|found| found.iter().any(|one| targets.contains(&one.cidr.address()))));
    }
    let unknown = CniResult::default();
    for address in targets {
        if let Some(link) = next_holder::find(address, FormerHolder { at, home, result: &unknown }, host)? {
            log::info!("container {} may have been added again: that of {} has {address}", at.container, link.name);
            return Ok(true);
        }
    }
    Ok(false)
}

/// The addresses to which a container's rules lead in both packet filters; `None` if one of the rules cannot be read.
fn targets(at: &Attachment, host: &mut dyn Host) -> Result<Option<BTreeSet<IpAddr>>, Error> {
    let Some(mut targets) = nftables::targets(at, host)? else { return Ok(None) };
    targets.extend(iptables::targets(at, host)?);
    Ok(Some(targets))
}

/// Whether rules lead to a container, or that cannot be seen.
pub fn has_rules(at: &Attachment, host: &mut dyn Host) -> bool {
    !matches!(targets(at, host), Ok(Some(targets)) if targets.is_empty())
}

/// Removes the rules of a dead container. Returns whether they are removed: a failure does not keep the ADD from going on.
fn is_removed(dead: &Attachment, host: &mut dyn Host) -> bool {
    match remove_rules(dead, host) {
        Ok(()) => {
            log::info!("the rules of container {} are removed: it is dead", dead.container);
            true
        }
        Err(error) => {
            log::warn!(
                "the rules of container {}, which is dead, cannot be removed: {}",
                dead.container,
                error.in_full()
            );
            false
        }
    }
}

/// Removes the rules of a container, given only its names.
fn remove_rules(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    removal.attempt(|host| iptables::del(host, at, None, &[]));
    removal.attempt(|host| nftables::del(host, at, &[], &[]));
    removal.finish()
}

fn warning(rival: &ContestingAttachment, at: &Attachment) -> String {
    let ports: Vec<String> = rival.ports.iter().map(ToString::to_string).collect();
    let Attachment { network, container, ifname } = &rival.entry.at;
    format!(
        "container {container} (network {network}, interface {ifname}) keeps host port {}: container {} gets it when that \
         one is deleted; to use both at once, give one of them another port",
        ports.join(", "),
        at.container,
    )
}

#[cfg(test)]
mod tests;
