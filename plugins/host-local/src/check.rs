//! CHECK: verifies that the attachment still has its leases. It changes nothing, not even the times of a file.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::requested;
use crate::store::{MachineIdentity, Store, is_held};

/// Verifies that the attachment has a lease, and one for each address of the result that is in the ranges. If the file of one of these
/// addresses does not show that, looks through all leases of the container.
pub fn check(request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    requested::collect(request)?;
    let attachment = request.attachment()?;
    let result = request.prev_result()?;
    let addresses = result.iter().flat_map(|result| result.ips_of(attachment.ifname.as_str()));
    let addresses = addresses.map(|ip| ip.address.address());
    let ours: Vec<IpAddr> = addresses.filter(|address| config.sets.iter().any(|set| set.contains(*address))).collect();
    let is_held = |address: &IpAddr| is_held(&config.directory, *address, &attachment);
    if !ours.is_empty() && ours.iter().all(is_held) {
        return Ok(());
    }
    let store = Store::reading(&config.directory, MachineIdentity::this())?;
    let leases = store.map(|mut store| store.leases_of_attachment(&attachment)).transpose()?.unwrap_or_default();
    let missing = |address: Option<IpAddr>| {
        let details =
            address.map_or_else(String::new, |address| format!("{address} of prevResult is not leased to it"));
        let container = &attachment.container;
        fail!(
            CheckFailed,
            "host-local: Failed to find address added by container {container}",
            details: "{details}"
        )
    };
    if leases.is_empty() {
        return Err(missing(None));
    }
    match ours.into_iter().find(|address| leases.iter().all(|lease| lease.address != *address)) {
        Some(address) => Err(missing(Some(address))),
        None => Ok(()),
    }
}
