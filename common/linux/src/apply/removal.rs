//! Removes links.
//!
//! A link that was found is removed by its index, and looked up again: DEL must not release an address that a link still
//! has.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_model::netns::NumberedLink;
use cni_model::plan::Ns;

use super::made::accept_absent;
use crate::machine::LinuxHost;

/// Removes the link of a name, if it exists.
pub(super) fn by_name(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    if let Some(link) = socket.link(name.as_str())? {
        accept_absent(socket.delete_link(link.index))?;
    }
    Ok(())
}

/// Removes the link of an index, which must exist.
pub(super) fn by_index(host: &mut LinuxHost, ns: Ns, index: u32) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    socket.delete_link(index)?;
    match socket.link_by_index(index)? {
        // The kernel has accepted the removal.
        Some(_) => Err(fail!(TryAgain, "link {index} of the {ns} namespace exists after its removal")),
        None => Ok(()),
    }
}

/// Removes the link of an index from the namespace of a number, if both exist.
pub(super) fn by_number(host: &mut LinuxHost, number: i32, index: u32) -> Result<(), Error> {
    let socket = host.socket(Ns::Host)?;
    socket.delete_numbered_link(number, index)?;
    match socket.numbered_link(number, index)? {
        NumberedLink::Link(_) => {
            let place = format!("the network namespace with number {number}");
            Err(fail!(TryAgain, "link {index} of {place} exists after its removal"))
        }
        NumberedLink::NoLink | NumberedLink::NoNamespace => Ok(()),
    }
}
