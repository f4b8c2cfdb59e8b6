//! DEL and GC: leases are given back. Neither makes a directory, and what is gone already is no failure.

use std::path::Path;

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::valid::ValidAttachments;

use crate::store::{Machine, Store, StoreError};

/// Releases all leases of an attachment.
///
/// # Errors
/// The first that could not be removed; the others are.
pub fn del(directory: &Path, attachment: &Attachment) -> Result<(), Error> {
    let Some(mut store) = Store::existing(directory, Machine::this())? else { return Ok(()) };
    let leases = store.leases_of_attachment(attachment)?;
    Ok(all(leases.iter(), |lease| store.release(lease))?)
}

/// Releases all leases but those of valid attachments, and removes the files that nobody holds.
///
/// # Errors
/// The first file that could not be removed; the others are.
pub fn gc(directory: &Path, valid: &ValidAttachments) -> Result<(), Error> {
    let Some(mut store) = Store::existing(directory, Machine::this())? else { return Ok(()) };
    let scan = store.scan()?;
    let stale =
        scan.leases.iter().filter(|lease| !valid.contains(&lease.owner.container, lease.owner.ifname.as_deref()));
    let released = all(stale, |lease| store.release(lease));
    let removed = all(scan.unowned.values(), |name| store.remove_unowned(name));
    Ok(released.and(removed)?)
}

/// Does something with every item, and returns the first failure.
fn all<T>(items: impl Iterator<Item = T>, mut work: impl FnMut(T) -> Result<(), StoreError>) -> Result<(), StoreError> {
    let mut done = Ok(());
    for item in items {
        done = done.and(work(item));
    }
    done
}
