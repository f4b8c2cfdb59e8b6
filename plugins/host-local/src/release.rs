//! DEL and GC: leases are released. Neither makes a directory, and neither fails if a lease is gone already.

use std::path::Path;

use cni_core::error::{Error, Failures};
use cni_core::names::Attachment;
use cni_core::valid::ValidAttachments;

use crate::store::{Machine, Store};

/// Releases all leases of an attachment.
///
/// # Errors
/// The first lease that could not be removed; all others are tried.
pub fn del(directory: &Path, attachment: &Attachment) -> Result<(), Error> {
    let Some(mut store) = Store::existing(directory, Machine::this())? else { return Ok(()) };
    let leases = store.leases_of_attachment(attachment)?;
    let mut failures = Failures::default();
    for lease in &leases {
        failures.keep(store.release(lease));
    }
    failures.into_result()
}

/// Releases all leases except those of valid attachments, and removes files that name no owner.
///
/// # Errors
/// The first file that could not be removed; all others are tried.
pub fn gc(directory: &Path, valid: &ValidAttachments) -> Result<(), Error> {
    let Some(mut store) = Store::existing(directory, Machine::this())? else { return Ok(()) };
    let scan = store.scan()?;
    let stale =
        scan.leases.iter().filter(|lease| !valid.contains(&lease.owner.container, lease.owner.ifname.as_deref()));
    let mut failures = Failures::default();
    for lease in stale {
        failures.keep(store.release(lease));
    }
    for name in scan.unowned.values() {
        failures.keep(store.remove_unowned(name));
    }
    failures.into_result()
}
