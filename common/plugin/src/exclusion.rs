//! One at a time: what works on an attachment, or on all of a network.
//!
//! CNI runtimes call the plugins of an attachment one after the other, but the administrator's `repair` comes when it
//! likes. It must not put back a rule that DEL has just removed, since no other DEL would come. So:
//!
//! - ADD, DEL and `repair` hold the lock of the attachment, GC and `repair` that of the network.
//! - Before DEL removes the rules for an interface that lives it marks the attachment; `repair` passes over what is
//!   marked, and over what has no interface, and looks again at its end.
//! - The mark goes with the interface, or when ADD comes again. Where the interface is another plugin's, nobody of
//!   ours sees it go: a mark of more than [`LONGEST_DEL`] is removed by the next DEL.
//!
//! DEL goes on without a lock that does not become free: the mark alone keeps `repair` from leaving anything behind.

use std::time::Duration;

use cni_core::error::Error;
use cni_core::names::{Attachment, NetworkName};

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

/// Ends a DEL that has removed everything of the plugin's share.
pub fn end_del(share: Share, at: &Attachment, host: &mut dyn Host) {
    if share == Share::Interface {
        or_warn(at, unmark(at, host));
    }
}

/// Begins the repair of an attachment: neither ADD nor DEL works on it, nor GC on its network.
///
/// # Errors
/// When one of them does not end.
pub fn begin_repair(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
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
    match host.enter(path) {
        Ok(()) if host.link(Ns::Container, &at.ifname)?.is_none() => return Ok(()),
        Ok(()) => {}
        Err(NetnsError::Gone { .. }) => return Ok(()),
        Err(error @ NetnsError::Failed { .. }) => log::debug!("{} is marked all the same: {error}", at.container),
    }
    for name in host.records().names_older_than(DELETING, LONGEST_DEL)? {
        host.apply(&Step::RemoveRecord { key: RecordKey::new(DELETING, &name)? })?;
    }
    // One that is there may be older than the attachment, and would stay so.
    unmark(at, host)?;
    host.apply(&Step::WriteRecord { key: mark_key(at), text: String::new() })?;
    Ok(())
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
