//! The bridge in the container whose port the device becomes.

use cni_core::error::{Code, Error, Failure};
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

/// Errors of the bridge, or of becoming its port.
#[derive(Debug, thiserror::Error)]
pub enum TapBridgeError {
    /// The container has no such interface.
    #[error("failed to get bridge {}: Link not found", name.as_str())]
    Absent { name: IfName },
    /// It is something else.
    #[error("failed to set tap as a port of bridge {}: it is {kind}", name.as_str())]
    Other { name: IfName, kind: String },
    /// The device is no port of it.
    #[error("tap {tap} is not a port of bridge {}", name.as_str())]
    NoPort { tap: String, name: IfName },
}

impl Failure for TapBridgeError {
    fn code(&self) -> Code {
        match self {
            Self::Absent { .. } | Self::Other { .. } => Code::InvalidConfig,
            Self::NoPort { .. } => Code::CheckFailed,
        }
    }
}

/// Requires a bridge of this name in the container.
pub fn find(name: &IfName, host: &mut dyn Host) -> Result<Link, Error> {
    let found = host.link(Ns::Container, name)?;
    let link = found.ok_or_else(|| TapBridgeError::Absent { name: name.clone() })?;
    if link.kind.as_deref() == Some("bridge") {
        return Ok(link);
    }
    let kind = link.kind.map_or_else(|| "no bridge".to_owned(), |kind| format!("of kind {kind}"));
    Err(TapBridgeError::Other { name: name.clone(), kind }.into())
}

/// Requires that a device is a port of the bridge.
pub fn require_port(tap: &Link, name: &IfName, host: &mut dyn Host) -> Result<(), Error> {
    let is_port = host.link(Ns::Container, name)?.is_some_and(|bridge| tap.master == Some(bridge.index));
    if is_port { Ok(()) } else { Err(TapBridgeError::NoPort { tap: tap.name.clone(), name: name.clone() }.into()) }
}
