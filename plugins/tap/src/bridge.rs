//! The bridge in the container whose port the device becomes.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

/// Requires a bridge of this name in the container.
pub fn find(name: &IfName, host: &mut dyn Host) -> Result<Link, Error> {
    let found = host.link(Ns::Container, name)?;
    let link = found.ok_or_else(|| fail!(InvalidConfig, "failed to get bridge {name}: Link not found"))?;
    if link.kind.as_deref() == Some("bridge") {
        return Ok(link);
    }
    let kind = link.kind.map_or_else(|| "no bridge".to_owned(), |kind| format!("of kind {kind}"));
    Err(fail!(InvalidConfig, "failed to set tap as a port of bridge {name}: it is {kind}"))
}

/// Requires that a device is a port of the bridge.
pub fn require_port(tap: &Link, name: &IfName, host: &mut dyn Host) -> Result<(), Error> {
    let is_port = host.link(Ns::Container, name)?.is_some_and(|bridge| tap.master == Some(bridge.index));
    let tap = &tap.name;
    if is_port { Ok(()) } else { Err(fail!(CheckFailed, "tap {tap} is not a port of bridge {name}")) }
}
