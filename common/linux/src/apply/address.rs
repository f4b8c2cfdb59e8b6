//! The addresses of links.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::IfName;
use cni_plugin::plan::{Dad, IfPresent, Ns};

use super::look_up::index;
use super::made::{Made, accept_absent, accept_existing};
use crate::host::LinuxHost;

/// Adds an address to a link.
pub(super) fn add(
    host: &mut LinuxHost,
    ns: Ns,
    name: &IfName,
    cidr: Cidr,
    dad: Dad,
    if_present: IfPresent,
) -> Result<Made, Error> {
    let index = index(host, ns, name)?;
    let added = host.socket(ns)?.add_address(index, cidr, dad);
    Ok(match if_present {
        IfPresent::Accept => accept_existing(added),
        IfPresent::Refuse => added.map(|()| Made::Now),
    }?)
}

/// Removes an address, if the link and the address exist.
pub(super) fn remove(host: &mut LinuxHost, ns: Ns, name: &IfName, cidr: Cidr) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    if let Some(link) = socket.link(name.as_str())? {
        accept_absent(socket.remove_address(link.index, cidr))?;
    }
    Ok(())
}
