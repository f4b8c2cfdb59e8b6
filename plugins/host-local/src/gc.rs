//! GC: releases leases that belong to no valid attachment. It creates no directory, and a missing lease is success.

use cni_core::error::{Error, Failures};
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;

use crate::config;
use crate::store::{MachineIdentity, Store};

/// Releases all leases except those of valid attachments, and removes files that name no owner.
///
/// # Errors
/// The first file that could not be removed; all others are tried.
pub fn gc(request: &Request, valid: &ValidAttachments, _host: &mut dyn Host) -> Result<(), Error> {
    let directory = config::directory(request)?;
    let Some(mut store) = Store::existing(&directory, MachineIdentity::this())? else { return Ok(()) };
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
