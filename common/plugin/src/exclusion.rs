//! One at a time: what works on an attachment, or on all of a network.
//!
//! CNI runtimes call the plugins of an attachment one after the other, but the administrator's `repair` comes when it
//! likes. It must not put back a rule that DEL has just removed, since no other DEL would come. So:
//!
//! - ADD, DEL and `repair` hold the lock of the attachment, GC and `repair` that of the network. A `repair` holds
//!   those of several attachments at once, so one repair works at a time: otherwise two could wait for each other.
//! - Before DEL removes the rules for an interface that lives it marks the attachment; `repair` passes over what is
//!   marked, and over what has no interface, and looks again at its end.
//! - The mark goes with the interface, or when ADD comes again. Where the interface is another plugin's, nobody of
//!   ours sees it go: then the next DEL of whatever container removes the mark.
//!
//! DEL goes on without a lock that does not become free: the mark alone keeps `repair` from leaving anything behind.

use std::fmt;
use std::time::Duration;

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName, NetworkName};

use crate::host::{Host, NetnsError};
use crate::lock::LockName;
use crate::plan::{Ns, Step};
use crate::record::{RecordKey, RecordKind};

/// The marks of attachments that are being deleted.
const DELETING: RecordKind = RecordKind::new("deleting");

/// How long a runtime may take from the first DEL of an attachment to its last, at most.
pub const LONGEST_DEL: Duration = Duration::from_secs(3600);

/// What a plugin makes of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The interface, and perhaps rules: its DEL is the last of the attachment.
    Interface,
    /// Rules for an interface that another plugin has made.
    Rules,
    /// Neither.
    Nothing,
}

/// Begins ADD: nothing else works on the attachment, and no DEL is under way any more.
pub fn begin_add(share: Share, at: &Attachment, host: &mut dyn Host) {
    if share != Share::Nothing {
        lock(at, "ADD", host);
        or_warn(at, unmark(at, host));
    }
}

/// Begins DEL; `netns` is the container's namespace, if the runtime names it.
pub fn begin_del(share: Share, at: &Attachment, netns: Option<&str>, host: &mut dyn Host) {
    match share {
        Share::Nothing => return,
        Share::Interface => {}
        Share::Rules => or_warn(at, mark(at, netns, host)),
    }
    lock(at, "DEL", host);
}

/// Ends a DEL that has removed everything of the plugin's share. With the mark, or what is left of the place for marks after
/// a killed DEL, go the directories of records that are empty.
pub fn end_del(share: Share, at: &Attachment, host: &mut dyn Host) {
    if share == Share::Interface {
        or_warn(at, host.apply(&Step::RemoveRecord { key: mark_key(at) }).map(drop));
    }
}

/// Begins the repair of an attachment: neither ADD nor DEL works on it, nor GC on its network, and nothing else is repaired by
/// another process.
///
/// # Errors
/// When one of them does not end.
pub fn begin_repair(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    host.lock(&LockName::repair())?;
    begin_gc(&at.network, host)?;
    host.lock(&LockName::attachment(at))
}

/// Begins GC of a network: no attachment of it is repaired.
///
/// # Errors
/// When it does not become free.
pub fn begin_gc(network: &NetworkName, host: &mut dyn Host) -> Result<(), Error> {
    host.lock(&LockName::network(network))
}

/// Whether a DEL of the attachment is under way, which was `added` at this time
/// since 1970. An older mark is of its former life, which other plugins than ours have ended and begun anew.
///
/// # Errors
/// When the mark cannot be looked for.
pub fn is_being_deleted(at: &Attachment, added: Duration, host: &mut dyn Host) -> Result<bool, Error> {
    Ok(host.records().written_at(&mark_key(at))?.is_some_and(|marked| marked >= added))
}

/// A runtime that works on the same attachment twice at once gets what it got before there was this lock.
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

/// An attachment without its interface needs no mark: `repair` passes over it.
fn mark(at: &Attachment, netns: Option<&str>, host: &mut dyn Host) -> Result<(), Error> {
    let Some(path) = netns else { return Ok(()) };
    let place = match host.enter(path) {
        Ok(()) if host.link(Ns::Container, &at.ifname)?.is_none() => return Ok(()),
        Ok(()) => MarkedPlace::observe(&at.ifname, path, host)?,
        Err(NetnsError::Gone { .. }) => return Ok(()),
        Err(error @ NetnsError::Failed { .. }) => {
            log::debug!("{} is marked all the same: {error}", at.container);
            None
        }
    };
    // One that is there may be older than the attachment, and would stay so.
    unmark(at, host)?;
    let text = place.map(|place| place.to_string()).unwrap_or_default();
    host.apply(&Step::WriteRecord { key: mark_key(at), text })?;
    remove_useless_marks(&mark_key(at), host)
}

/// How many marks of other attachments a DEL looks at. It leaves one itself, so none piles up.
const MOST_LOOKS: usize = 8;

/// Removes marks of interfaces that are gone, and those of before [`LONGEST_DEL`], of which nobody knows.
fn remove_useless_marks(own: &RecordKey, host: &mut dyn Host) -> Result<(), Error> {
    let mut useless = host.records().names_older_than(DELETING, LONGEST_DEL)?;
    let names = host.records().names(DELETING)?;
    for name in names.into_iter().filter(|name| name != own.name()).take(MOST_LOOKS) {
        let text = host.records().read(&RecordKey::new(DELETING, &name)?)?;
        if MarkedPlace::parse(&text.unwrap_or_default()).is_some_and(|place| place.is_gone(host)) {
            useless.push(name);
        }
    }
    for name in useless {
        host.apply(&Step::RemoveRecord { key: RecordKey::new(DELETING, &name)? })?;
    }
    Ok(())
}

/// Where the interface of a marked attachment is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MarkedPlace {
    ifname: IfName,
    /// What distinguishes the network namespace from all others.
    identity: String,
    path: String,
}

impl MarkedPlace {
    /// `None` where namespaces cannot be told from each other later. The namespace is entered.
    fn observe(ifname: &IfName, path: &str, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let identity = host.identity(Ns::Container)?;
        Ok(identity.map(|identity| Self { ifname: ifname.clone(), identity, path: path.to_owned() }))
    }

    /// Reads what it displays. The path may hold blanks.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (ifname, identity, path) = (words.next()?, words.next()?, words.next()?);
        Some(Self { ifname: IfName::parse(ifname).ok()?, identity: identity.to_owned(), path: path.to_owned() })
    }

    /// Whether it is certain that the interface is gone.
    fn is_gone(&self, host: &mut dyn Host) -> bool {
        match host.enter(&self.path) {
            Ok(()) => {}
            Err(NetnsError::Gone { .. }) => return true,
            Err(NetnsError::Failed { .. }) => return false,
        }
        let is_another = |now: Option<String>| now.is_some_and(|now| now != self.identity);
        host.identity(Ns::Container).is_ok_and(is_another)
            || host.link(Ns::Container, &self.ifname).is_ok_and(|link| link.is_none())
    }
}

impl fmt::Display for MarkedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ifname, identity, path } = self;
        write!(f, "{ifname} {identity} {path}")
    }
}

fn unmark(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    let key = mark_key(at);
    if host.records().read(&key)?.is_some() {
        host.apply(&Step::RemoveRecord { key })?;
    }
    Ok(())
}

fn mark_key(at: &Attachment) -> RecordKey {
    RecordKey::hashed(DELETING, "", &format!("{}\0{}\0{}", at.network, at.container, at.ifname))
}
