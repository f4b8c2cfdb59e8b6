//! DEL: releases the leases of an attachment. It creates no directory, and a missing lease is success.

use cni_core::error::{Error, Failures};
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::config;
use crate::store::{MachineIdentity, Store};

/// Releases all leases of an attachment.
///
/// # Errors
/// The first lease that could not be removed; all others are tried.
pub fn del(request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
    let directory = config::directory(request)?;
    let attachment = request.attachment()?;
    let Some(mut store) = Store::existing(&directory, MachineIdentity::this())? else { return Ok(()) };
    let leases = store.leases_of_attachment(&attachment)?;
    let mut failures = Failures::default();
    for lease in &leases {
        failures.keep(store.release(lease));
    }
    failures.into_result()
}
