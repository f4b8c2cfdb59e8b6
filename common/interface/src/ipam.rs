//! The IPAM plugin, which interface plugins ask along with every command.
//!
//! ADD asks it through [`Journal::delegate_add`](cni_plugin::journal::Journal::delegate_add), which has it
//! release what it gave when a later step fails.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;
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

/// Whether an IPAM plugin speaks with a server by the container's interface: it is asked when that is there, and told while
/// it is there still. The others are told when the interface is gone, so that nobody gets an address that is in use.
pub fn speaks_by_link(plugin: &str) -> bool {
    plugin == "dhcp"
}

/// DEL: removes the interface by `remove`, and has the IPAM plugin release its addresses, each at its turn. One that speaks
/// by the interface takes the addresses from it first.
pub fn del_with(request: &Request, removal: &mut Removal<'_>, remove: impl FnOnce(&mut Removal<'_>)) {
    let first = request.decode::<IpamOnly>().is_ok_and(|only| only.ipam.plugin().is_some_and(|it| speaks_by_link(&it)));
    if first {
        removal.attempt(|host| forward(request, Command::Del, host));
    }
    remove(removal);
    if !first {
        removal.attempt(|host| forward(request, Command::Del, host));
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
