//! Mutual exclusion: one process at a time works on an attachment, or on all attachments of a network.
//!
//! CNI runtimes call the plugins of an attachment one after the other, but the administrator may call `repair` at any
//! time. It must not restore a rule that DEL has just removed, since no other DEL would follow. So:
//!
//! - ADD, DEL, `repair` and `gc` of the tool lock the attachment; GC and `repair` lock the network. `repair` and `gc` hold the
//!   locks of several attachments, so only one of them does so at a time: otherwise two could wait for each other.
//! - Before DEL removes the rules of an interface that still exists, it marks the attachment. `repair` skips marked
//!   attachments and those without an interface, looks again when it has restored rules, and removes those of attachments that were
//!   marked meanwhile.
//! - The mark is removed with the interface, or by the next ADD. If a plugin of another project removes the interface,
//!   the next DEL of any container removes the mark, also one that is repeated.
//!
//! DEL continues if it cannot get the lock in time: the mark alone prevents `repair` from leaving rules behind.

use std::fmt;
use std::time::Duration;

use cni_core::error::Error;
use cni_core::names::{Attachment, NetworkName};

use crate::host::Host;
use crate::ledger::{self, DELETION};
use crate::lock::LockName;
use crate::namespace::{self, Life, OnHost as _, RecordedNamespace};
use crate::other_network;
use crate::share::Share;
use cni_model::netns::NetnsError;
use cni_model::plan::Ns;

/// The longest time from the first DEL of an attachment to its last.
const LONGEST_DEL: Duration = Duration::from_secs(3600);

/// Begins ADD: locks the attachment, and removes the marks of an earlier DEL and an earlier ADD that was refused.
pub fn begin_add(share: Share, at: &Attachment, host: &mut dyn Host) {
    if share != Share::Nothing {
        lock(at, "ADD", host);
        or_warn(at, unmark(at, host));
        or_warn(at, other_network::unmark(at, host));
    }
}

/// Begins DEL; `netns` is the container's namespace, if the runtime names it.
pub fn begin_del(share: Share, at: &Attachment, netns: Option<&str>, host: &mut dyn Host) {
    match share {
        Share::Nothing => return,
        Share::Interface | Share::Properties => {}
        Share::Rules => or_warn(at, mark(at, netns, host)),
    }
    lock(at, "DEL", host);
}

/// Begins to lock several attachments: no other process does.
pub fn begin_several(host: &mut dyn Host) -> Result<(), Error> {
    host.lock(&LockName::several())
}

/// Begins the repair of an attachment: neither ADD nor DEL works on it, nor GC on its network, and nothing else is repaired by
/// another process.
pub fn begin_repair(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    begin_several(host)?;
    begin_gc(&at.network, host)?;
    host.lock(&LockName::attachment(at))
}

/// Begins work on one attachment of a network that is locked, or on a dead one: neither ADD nor DEL works on it.
pub fn begin_attachment(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    host.lock(&LockName::attachment(at))
}

/// Begins GC of a network: no attachment of it is repaired.
pub fn begin_gc(network: &NetworkName, host: &mut dyn Host) -> Result<(), Error> {
    host.lock(&LockName::network(network))
}

/// Whether a DEL of the attachment is in progress. The container's namespace must have been entered. A mark of an
/// interface that no longer exists belongs to an earlier attachment of these names, which plugins of other projects
/// have deleted and added again.
pub fn is_being_deleted(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let entry = host.ledger().entry(at)?;
    let Some(text) = entry.as_ref().and_then(|entry| entry.part(&DELETION.part())) else { return Ok(false) };
    let marked = Mark::parse(text).and_then(|mark| mark.interface);
    marked.map_or(Ok(true), |interface| interface.is_here(host))
}

/// Locks the attachment. If the lock does not become free, the work continues as it did before this lock existed.
fn lock(at: &Attachment, command: &'static str, host: &mut dyn Host) {
    if let Err(error) = host.lock(&LockName::attachment(at)) {
        log::warn!("{command} of {} goes on without its lock: {}", at.container, error.in_full());
    }
}

/// Without its mark, an attachment is as safe from `repair` as the lock makes it.
fn or_warn(at: &Attachment, done: Result<(), Error>) {
    if let Err(error) = done {
        log::warn!("the mark of the DEL of {} is not as it should be: {}", at.container, error.in_full());
    }
}

/// Marks the attachment. One without its interface needs no mark: `repair` skips it.
fn mark(at: &Attachment, netns: Option<&str>, host: &mut dyn Host) -> Result<(), Error> {
    let made = host.ledger().since_boot()?;
    // What is left of others does not keep this one from its mark.
    let swept = remove_useless_marks(made, host);
    let Some(path) = netns else { return swept };
    let marked = match host.enter(path) {
        Ok(()) => match host.link(Ns::Container, &at.ifname)? {
            Some(link) => Some(MarkedInterface { index: link.index, namespace: namespace::of_entered(path, host)? }),
            None => return swept,
        },
        Err(NetnsError::Gone { .. }) => return swept,
        Err(error @ NetnsError::Failed { .. }) => {
            log::debug!("{} is marked all the same: {error}", at.container);
            None
        }
    };
    let text = Mark { made, interface: marked }.to_string();
    host.apply(&ledger::write(at, DELETION.part(), text))?;
    swept
}

/// The number of marks that a DEL looks at. Each DEL leaves at most one, so none accumulate.
const MOST_LOOKS: usize = 8;

/// Removes marks of interfaces that no longer exist, those older than [`LONGEST_DEL`], and those that make no sense.
fn remove_useless_marks(now: Duration, host: &mut dyn Host) -> Result<(), Error> {
    for entry in host.ledger().holders(DELETION, &|_| true)?.iter().take(MOST_LOOKS) {
        let mark = entry.part(&DELETION.part()).and_then(Mark::parse);
        if mark.is_none_or(|mark| mark.is_useless(now, host)) {
            host.apply(&ledger::remove(&entry.at, [DELETION.part()]))?;
        }
    }
    Ok(())
}

/// The mark of an attachment that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    /// The time since boot, which nobody can set.
    made: Duration,
    /// `None` if the interface could not be looked at.
    interface: Option<MarkedInterface>,
}

impl Mark {
    fn parse(text: &str) -> Option<Self> {
        let (seconds, interface) = text.split_once(' ')?;
        let made = Duration::from_secs(seconds.parse().ok()?);
        Some(Self { made, interface: MarkedInterface::parse(interface) })
    }

    fn is_useless(&self, now: Duration, host: &mut dyn Host) -> bool {
        now.saturating_sub(self.made) > LONGEST_DEL
            || self.interface.as_ref().is_some_and(|interface| interface.is_missing(host))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.made.as_secs())?;
        self.interface.as_ref().map_or(Ok(()), |interface| write!(f, "{interface}"))
    }
}

/// The interface of a marked attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MarkedInterface {
    index: u32,
    /// `None` if namespaces cannot be distinguished.
    namespace: Option<RecordedNamespace>,
}

impl MarkedInterface {
    fn parse(text: &str) -> Option<Self> {
        let (index, namespace) = text.split_once(' ')?;
        Some(Self { index: index.parse().ok()?, namespace: RecordedNamespace::parse(namespace) })
    }

    /// Whether the interface is in the entered namespace.
    fn is_here(&self, host: &mut dyn Host) -> Result<bool, Error> {
        let is_namespace = self.namespace.as_ref().map_or(Ok(true), |namespace| namespace.is_entered(host))?;
        Ok(is_namespace && host.link_by_index(Ns::Container, self.index)?.is_some())
    }

    /// Whether the interface certainly no longer exists.
    fn is_missing(&self, host: &mut dyn Host) -> bool {
        let Some(namespace) = &self.namespace else { return false };
        match namespace.life(None, host) {
            Life::Dead => true,
            Life::Alive => {
                let found = namespace.within(host, |host| host.link_by_index(Ns::Container, self.index));
                matches!(found, Ok(Some(None)))
            }
            Life::Unknown(_) => false,
        }
    }
}

impl fmt::Display for MarkedInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.index)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, "{namespace}"))
    }
}

fn unmark(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    if host.ledger().entry(at)?.is_some_and(|entry| entry.part(&DELETION.part()).is_some()) {
        host.apply(&ledger::remove(at, [DELETION.part()]))?;
    }
    Ok(())
}
