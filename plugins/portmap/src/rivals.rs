//! Two containers with one port of the host: the newest that lives gets the packets.
//!
//! The first rule that fits a packet wins. In the reference that is the oldest container's, even when it is long dead
//! and its DEL never came. So an ADD removes what a dead container has left, and goes in front of one that lives. Who has
//! a port is recorded (`register.rs`); without a conflict that is all that this costs, and the order of the rules is
//! the reference's.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{Attachment, NetworkName};
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_netfilter::RulePosition;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::lock::LockName;
use cni_plugin::namespace::{Life, RecordedNamespace};
use cni_plugin::plan::Plan;
use cni_plugin::removal::Removal;

use crate::published::PublishedPort;
use crate::register::{self, OwnPorts, PortLine, PortRegister};
use crate::told::Told;
use crate::{iptables, nftables};

/// The families in which a container's rules go in front of those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crowded(BTreeSet<Family>);

impl Crowded {
    /// Where the rules of a family go.
    pub fn position(&self, family: Family) -> RulePosition {
        if self.0.contains(&family) { RulePosition::Front } else { RulePosition::Back }
    }
}

/// Another attachment that has some of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rival<'a> {
    owner: &'a Attachment,
    home: Option<&'a RecordedNamespace>,
    ports: Vec<PublishedPort>,
    /// Whether it has come after the attachment in question.
    is_newer: bool,
}

/// Whether a container is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Dead,
    /// It lives, or nobody can tell.
    Living,
}

/// ADD: records whose the ports are, removes the rules of dead containers that have some of them, and says where the
/// new rules go.
pub fn make_way(request: &Request, told: &Told, journal: &mut Journal<'_>) -> Crowded {
    let published = told.published();
    if published.is_empty() {
        return Crowded::default();
    }
    let register = observe_locked(&told.at, published.iter().map(|own| own.port), journal.host());
    let mut crowded = Crowded::default();
    let mut gone = Vec::new();
    for rival in rivals(&register, &published) {
        if observe_presence(rival.home, journal.host()) == Presence::Dead && is_removed(rival.owner, journal.host()) {
            gone.push(rival.owner.clone());
        } else if rival.owner.container != told.at.container {
            log::warn!("{}", warning(&rival, &told.at));
            crowded.0.extend(rival.ports.iter().map(PublishedPort::family));
        }
    }
    let claim = register.claim(observe_home(request, journal.host()).as_ref(), &published, &gone);
    if let Err(error) = journal.apply(&claim) {
        log::warn!("a conflict of host ports may go unnoticed: {}", error.in_full());
    }
    crowded
}

/// A repair: says where rules go that are put back, and what is recorded with them. Nothing is changed, and the
/// request's namespace is the one that is entered.
///
/// # Errors
/// When that cannot be entered again.
pub fn observe_position(request: &Request, told: &Told, host: &mut dyn Host) -> Result<(Crowded, Plan), Error> {
    let published = told.published();
    let ports = OwnPorts::observe(&told.at, published.iter().map(|own| own.port), host.records());
    let register = PortRegister::observe(ports, host.records());
    let mut judged = Vec::new();
    for rival in rivals(&register, &published) {
        if rival.owner.container != told.at.container {
            let presence = observe_presence(rival.home, host);
            judged.push((rival, presence));
        }
    }
    let record = register.restore(observe_home(request, host).as_ref(), &published);
    if let Some(path) = request.netns().filter(|_| !judged.is_empty()) {
        host.enter(path)?;
    }
    Ok((after_repair(&judged), record))
}

/// DEL: forgets whose the ports were, once no rule leads to the container.
///
/// # Errors
/// When a record cannot be changed.
pub fn forget(at: &Attachment, mapped: impl IntoIterator<Item = u16>, host: &mut dyn Host) -> Result<(), Error> {
    let release = observe_locked(at, mapped, host).release();
    host.carry_out(&release)
}

/// GC: the same for all attachments of a network that are not valid.
///
/// # Errors
/// The first failure, with notes of the others.
pub fn forget_stale(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let recorded = register::of_network(network, host.records())?;
    let mut removal = Removal::new(host);
    for at in recorded.iter().filter(|at| !valid.contains(at.container.as_str(), Some(at.ifname.as_str()))) {
        removal.attempt(|host| forget(at, [], host));
    }
    removal.finish()
}

/// Others change the record of a port at the same time. Without its lock, a line of it may be lost.
fn observe_locked(at: &Attachment, mapped: impl IntoIterator<Item = u16>, host: &mut dyn Host) -> PortRegister {
    let ports = OwnPorts::observe(at, mapped, host.records());
    for port in ports.numbers() {
        if let Err(error) = host.lock(&LockName::host_port(port)) {
            log::warn!("a conflict of host port {port} may go unnoticed: {}", error.in_full());
        }
    }
    PortRegister::observe(ports, host.records())
}

fn rivals<'a>(register: &'a PortRegister, published: &[PublishedPort]) -> Vec<Rival<'a>> {
    let mut rivals: Vec<Rival<'a>> = Vec::new();
    for line in register.rivals(published) {
        let PortLine { published, owner, home } = line;
        let is_newer = register.is_newer(line);
        match rivals.iter_mut().find(|rival| rival.owner == owner) {
            Some(rival) => {
                rival.ports.push(*published);
                rival.is_newer |= is_newer;
            }
            None => rivals.push(Rival { owner, home: home.as_ref(), ports: vec![*published], is_newer }),
        }
    }
    rivals
}

/// The newest that lives keeps its place: what comes after it goes behind all others, and what has come before it in
/// front of those that are older or dead.
fn after_repair(rivals: &[(Rival<'_>, Presence)]) -> Crowded {
    let families = |rivals: &mut dyn Iterator<Item = &Rival<'_>>| -> BTreeSet<Family> {
        rivals.flat_map(|rival| rival.ports.iter().map(PublishedPort::family)).collect()
    };
    let outdone = rivals.iter().filter(|(rival, presence)| rival.is_newer && *presence == Presence::Living);
    let outdone = families(&mut outdone.map(|(rival, _)| rival));
    let shared = families(&mut rivals.iter().map(|(rival, _)| rival));
    Crowded(shared.difference(&outdone).copied().collect())
}

fn observe_presence(home: Option<&RecordedNamespace>, host: &mut dyn Host) -> Presence {
    match home.map(|home| home.life(None, host)) {
        Some(Life::Dead) => Presence::Dead,
        Some(Life::Alive) | None => Presence::Living,
        Some(Life::Unknown(reason)) => {
            log::info!("a container counts as living: {reason}");
            Presence::Living
        }
    }
}

/// Whether the rules of a dead container are gone; the new ones are to work all the same.
fn is_removed(dead: &Attachment, host: &mut dyn Host) -> bool {
    match remove_rules(dead, host) {
        Ok(()) => {
            log::info!(
                "the rules of container {} are removed: it is gone, and its ports are mapped anew",
                dead.container
            );
            true
        }
        Err(error) => {
            log::warn!(
                "the rules of container {}, which is gone, cannot be removed: {}",
                dead.container,
                error.in_full()
            );
            false
        }
    }
}

/// Removes the rules of a container of which just the names are known.
fn remove_rules(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    removal.attempt(|host| iptables::del(host, at, None, &[]));
    removal.attempt(|host| nftables::del(host, at, &[], &[]));
    removal.finish()
}

/// The namespace that is recorded with a mapping. Without one, the container counts as living.
fn observe_home(request: &Request, host: &mut dyn Host) -> Option<RecordedNamespace> {
    RecordedNamespace::observe(request, host).unwrap_or_else(|error| {
        log::warn!("the container's namespace is not recorded: {}", error.in_full());
        None
    })
}

fn warning(rival: &Rival<'_>, at: &Attachment) -> String {
    let ports: Vec<String> = rival.ports.iter().map(ToString::to_string).collect();
    let Attachment { network, container, ifname } = rival.owner;
    format!(
        "container {container} (network {network}, interface {ifname}) has host port {} as well: new connections go to \
         container {} as long as that one lives; give one of them another port",
        ports.join(", "),
        at.container,
    )
}

#[cfg(test)]
mod tests;
