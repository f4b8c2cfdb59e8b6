//! DEL: ends the exchange of frames, and removes the device. It needs neither arguments nor a result.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_interface::leftovers;
use cni_model::link::Link;
use cni_model::plan::{Ns, Step};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::pair;

/// The index that a redirect to a deleted link has.
const DELETED: u32 = 0;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    if !host.enter_if_exists(request.netns().unwrap_or_default())? {
        return Ok(());
    }
    let at = request.attachment()?;
    let result = request.prev_result().unwrap_or_default();
    let link = host.link(Ns::Container, &at.ifname)?;
    let taps = pair::devices(&at, result.as_ref(), link.as_ref(), host)?;
    let mut removal = Removal::new(host);
    for tap in &taps {
        removal.attempt(|host| remove(tap, link.as_ref().map(|_| &at.ifname), host));
    }
    removal.attempt(|host| remove_redirects_to_deleted(&at.ifname, link.as_ref(), host));
    removal.finish()
}

/// Removes a device, by its index: the container may rename it at any time. Before, the interface stops to send its frames
/// there, unless the device has a name that this program cannot write. If that fails, the device stays: by it the next DEL finds
/// what is left.
fn remove(tap: &Link, interface: Option<&IfName>, host: &mut dyn Host) -> Result<(), Error> {
    if let (Some(name), Ok(to)) = (interface, IfName::parse(&tap.name)) {
        host.apply(&Step::RemoveRedirect { ns: Ns::Container, name: name.clone(), to })?;
    }
    leftovers::remove_found(tap.index, host).map(drop)
}

/// A filter that leads to a deleted device drops every frame.
fn remove_redirects_to_deleted(name: &IfName, interface: Option<&Link>, host: &mut dyn Host) -> Result<(), Error> {
    if pair::targets(interface, host)?.contains(&DELETED) {
        host.apply(&Step::RemoveRedirect { ns: Ns::Container, name: name.clone(), to: name.clone() })?;
    }
    Ok(())
}
