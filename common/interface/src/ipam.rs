//! The IPAM plugin, which interface plugins ask along with every command.
//!
//! ADD asks it through [`Journal::delegate_add`](cni_plugin::journal::Journal::delegate_add), which has it
//! release what it gave when a later step fails.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_plugin::host::Host;
use serde::Deserialize;

use crate::keys::IpamKey;

/// Has the IPAM plugin, if there is one, carry out a command other than ADD.
///
/// # Errors
/// The IPAM plugin's own, with its code, or why it could not run.
pub fn delegate(plugin: Option<&str>, command: Command, host: &mut dyn Host) -> Result<(), Error> {
    match plugin {
        Some(plugin) => host.delegate(plugin, command).map(|_| ()),
        None => Ok(()),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IpamOnly {
    ipam: IpamKey,
}

/// As [`delegate`], whatever else is wrong with the configuration: for DEL and GC.
///
/// # Errors
/// When `ipam` or its `type` has the wrong type, and as [`delegate`].
pub fn forward(request: &Request, command: Command, host: &mut dyn Host) -> Result<(), Error> {
    let IpamOnly { ipam } = request.decode()?;
    delegate(ipam.plugin().as_deref(), command, host)
}
