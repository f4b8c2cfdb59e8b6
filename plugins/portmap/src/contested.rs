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
use cni_netfilter::Proto;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::lock::LockName;
use cni_plugin::missing::MissingRecords;
use cni_plugin::namespace::{Life, RecordedNamespace};
use cni_plugin::removal::Removal;

use crate::input::Input;
use crate::register::{self, ChainRegister, OwnPorts, PortLine, PortRegister, PublishedPort};
use crate::{iptables, nftables};

/// The ports of a container that others have as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContestedPorts(Vec<ContestingAttachment>);

/// Another attachment that has some of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ContestingAttachment {
    owner: Attachment,
    home: Option<RecordedNamespace>,
    ports: Vec<PublishedPort>,
    /// Whether it was added after the attachment in question.
    is_later: bool,
}

/// Whether a container still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContainerPresence {
    Dead,
    /// It exists, or this is unknown.
    Living,
}

impl ContestedPorts {
    /// The attachments whose rules of a family come after those of the container.
    pub fn later(&self, family: Family) -> impl Iterator<Item = &Attachment> {
        let has_family = move |rival: &&ContestingAttachment| rival.ports.iter().any(|port| port.family() == family);
        self.0.iter().filter(|rival| rival.is_later).filter(has_family).map(|rival| &rival.owner)
    }

    /// The addresses and UDP ports of the host that others keep: connections to these are theirs.
    pub fn kept_from_it(&self) -> Vec<SocketAddr> {
        let ports = self.0.iter().filter(|rival| !rival.is_later).flat_map(|rival| &rival.ports);
        ports.filter(|port| port.proto == Proto::Udp).map(|port| SocketAddr::new(port.address, port.port)).collect()
    }
}

/// ADD: records the ports, removes the rules of dead containers that have some of them, and returns the ports of
/// others.
pub fn claim(request: &Request, input: &Input, journal: &mut Journal<'_>) -> ContestedPorts {
    let published = input.published();
    if published.is_empty() {
        return ContestedPorts::default();
    }
    let ports = OwnPorts::observe(&input.at, published.iter().map(|own| own.port), journal.host().records());
    let locked = LockedPorts::observe(ports, &published, journal.host());
    let (removed, contested) = locked.remove_dead(&published, journal.host());
    for rival in contested.iter().filter(|rival| !rival.is_later && rival.owner.container != input.at.container) {
        log::warn!("{}", warning(rival, &input.at));
    }
    let mut claim = locked.register.claim(observe_home(request, journal.host()).as_ref(), &published, &removed);
    release_chains(&removed, &mut claim, journal.host());
    if let Err(error) = journal.apply(&claim) {
        log::warn!("a conflict of host ports may go unnoticed: {}", error.in_full());
    }
    ContestedPorts(contested)
}

/// A repair: returns the ports of others. Nothing is changed.
pub fn observe(input: &Input, host: &mut dyn Host) -> ContestedPorts {
    let published = input.published();
    let ports = OwnPorts::observe(&input.at, published.iter().map(|own| own.port), host.records());
    ContestedPorts(rivals(&PortRegister::observe(ports, host.records()), &published))
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
    let ports = OwnPorts::observe(&input.at, published.iter().map(|own| own.port), host.records());
    let locks = ports.numbers().map(LockName::host_port).collect();
    let (register, mut later) = (PortRegister::observe(ports, host.records()), Vec::new());
    if !register.has_all(&published) {
        for rival in rivals(&register, &published) {
            if is_behind(&rival, &input.at, host)?.unwrap_or_else(|| is_next(&rival.owner)) {
                later.push(rival.owner);
            }
        }
    }
    Ok(MissingRecords { locks, plan: register.restore(observe_home(request, host).as_ref(), &published, &later) })
}

/// Whether packets to the contested ports meet the rules of another attachment behind those of `own`; `None` where not both have rules in
/// one chain.
fn is_behind(rival: &ContestingAttachment, own: &Attachment, host: &mut dyn Host) -> Result<Option<bool>, Error> {
    let (mut is_behind, both) = (None, [&rival.owner, own]);
    for family in Family::ALL.into_iter().filter(|family| rival.ports.iter().any(|port| port.family() == *family)) {
        for places in [iptables::places(family, both, host)?, nftables::places(family, both, host)?] {
            if let [Some(rival), Some(own)] = places {
                is_behind = Some(own < rival && is_behind != Some(false));
            }
        }
    }
    Ok(is_behind)
}

/// DEL: removes the records of the ports, after the rules, and the rules that dead containers with the same ports have
/// left.
pub fn forget(at: &Attachment, mapped: impl IntoIterator<Item = u16>, host: &mut dyn Host) -> Result<(), Error> {
    let ports = OwnPorts::observe(at, mapped, host.records());
    let published = PortRegister::observe(ports.clone(), host.records()).published();
    let locked = LockedPorts::observe(ports, &published, host);
    let (removed, _) = locked.remove_dead(&published, host);
    let mut release = locked.register.release(&removed);
    release_chains(removed.iter().chain([at]), &mut release, host);
    host.carry_out(&release)
}

/// GC: forgets the ports of all attachments of a network that are not valid, and removes their rules in iptables.
pub fn forget_stale(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let kept: Vec<Attachment> = valid.of_network(network).collect();
    let recorded = register::owners_but(&kept.iter().collect::<Vec<_>>(), host.records())?;
    let mut removal = Removal::new(host);
    for at in recorded.iter().map(|owner| &owner.at).filter(|at| at.network == *network) {
        // The rules of one interface do not say which it is, so they are still there where another one is valid.
        removal.attempt(|host| iptables::del(host, at, None, &[]));
        removal.attempt(|host| forget(at, [], host));
    }
    removal.finish()
}

/// The records of some ports, locked until the plugin ends, since others may change a record at the same time.
struct LockedPorts {
    register: PortRegister,
    /// Dead attachments that had some of the ports until now.
    dead: Vec<ContestingAttachment>,
}

impl LockedPorts {
    /// Locks the ports of an attachment and all ports of dead attachments that have some of them. All are locked in one
    /// order, since two plugins would wait for each other otherwise.
    fn observe(mut ports: OwnPorts, published: &[PublishedPort], host: &mut dyn Host) -> Self {
        let unlocked = PortRegister::observe(ports.clone(), host.records());
        let mut dead = rivals(&unlocked, published);
        dead.retain(|rival| observe_presence(rival, host) == ContainerPresence::Dead);
        dead.iter().for_each(|rival| ports.add(OwnPorts::observe(&rival.owner, [], host.records())));
        for port in ports.numbers() {
            if let Err(error) = host.lock(&LockName::host_port(port)) {
                log::warn!("a conflict of host port {port} may go unnoticed: {}", error.in_full());
            }
        }
        Self { register: PortRegister::observe(ports, host.records()), dead }
    }

    /// Removes the rules of dead attachments. Returns these, and the others that have some of the ports.
    fn remove_dead(
        &self,
        published: &[PublishedPort],
        host: &mut dyn Host,
    ) -> (Vec<Attachment>, Vec<ContestingAttachment>) {
        let rivals = rivals(&self.register, published);
        let is_dead = |rival: &ContestingAttachment| {
            self.dead.iter().any(|dead| (&dead.owner, &dead.home) == (&rival.owner, &rival.home))
        };
        let (removed, others): (Vec<ContestingAttachment>, Vec<ContestingAttachment>) =
            rivals.into_iter().partition(|rival| is_dead(rival) && is_removed(&rival.owner, host));
        (removed.into_iter().map(|rival| rival.owner).collect(), others)
    }
}

fn rivals(register: &PortRegister, published: &[PublishedPort]) -> Vec<ContestingAttachment> {
    let mut rivals: Vec<ContestingAttachment> = Vec::new();
    for line in register.rivals(published) {
        let PortLine { published, owner, home } = line;
        match rivals.iter_mut().find(|rival| rival.owner == *owner) {
            Some(rival) => rival.ports.push(*published),
            None => rivals.push(ContestingAttachment {
                owner: owner.clone(),
                home: home.clone(),
                ports: vec![*published],
                is_later: register.is_later(line),
            }),
        }
    }
    rivals
}

fn observe_presence(rival: &ContestingAttachment, host: &mut dyn Host) -> ContainerPresence {
    match rival.home.as_ref().map(|home| home.life(None, host)) {
        Some(Life::Dead) => match is_added_again(&rival.owner, rival.home.as_ref(), host) {
            Ok(false) => ContainerPresence::Dead,
            Ok(true) => ContainerPresence::Living,
            Err(error) => {
                log::info!("a container counts as living: {}", error.in_full());
                ContainerPresence::Living
            }
        },
        Some(Life::Alive) | None => ContainerPresence::Living,
        Some(Life::Unknown(reason)) => {
            log::info!("a container counts as living: {reason}");
            ContainerPresence::Living
        }
    }
}

/// Whether a container whose recorded namespace, `home`, has ended may live in another one: it was added again. Then its rules lead to
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

/// Removes the records of some attachments' iptables chains.
fn release_chains<'a>(owners: impl IntoIterator<Item = &'a Attachment>, plan: &mut Plan, host: &mut dyn Host) {
    for owner in owners {
        let step = ChainRegister::observe(owner, host.records()).release();
        step.into_iter().for_each(|step| plan.owned(step));
    }
}

/// The namespace that is recorded with a mapping. Without one, the container counts as living.
fn observe_home(request: &Request, host: &mut dyn Host) -> Option<RecordedNamespace> {
    RecordedNamespace::observe(request, host).unwrap_or_else(|error| {
        log::warn!("the container's namespace is not recorded: {}", error.in_full());
        None
    })
}

fn warning(rival: &ContestingAttachment, at: &Attachment) -> String {
    let ports: Vec<String> = rival.ports.iter().map(ToString::to_string).collect();
    let Attachment { network, container, ifname } = &rival.owner;
    format!(
        "container {container} (network {network}, interface {ifname}) keeps host port {}: container {} gets it when that \
         one is deleted; to use both at once, give one of them another port",
        ports.join(", "),
        at.container,
    )
}

#[cfg(test)]
mod tests;
