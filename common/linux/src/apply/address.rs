//! The addresses of links.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::IfName;
use cni_model::plan::{Dad, IfPresent, NewGateway, Ns};

use super::look_up::index;
use super::made::{Creation, accept_absent, accept_existing};
use crate::locks::{PATIENCE, take_short};
use crate::machine::LinuxHost;

/// The lock around changes of the host's addresses, which are done in less than a millisecond.
const LOCK: &str = "addresses.lock";

/// Adds an address to a link.
pub(super) fn add(
    host: &mut LinuxHost,
    ns: Ns,
    name: &IfName,
    cidr: Cidr,
    dad: Dad,
    if_present: IfPresent,
) -> Result<Creation, Error> {
    let index = index(host, ns, name)?;
    let added = host.socket(ns)?.add_address(index, cidr, dad);
    Ok(match if_present {
        IfPresent::Accept => accept_existing(added),
        IfPresent::Refuse => added.map(|()| Creation::Now),
    }?)
}

/// Decides by the addresses that the link has while no other ADD can give it one, and changes them.
pub(super) fn ensure_gateway(host: &mut LinuxHost, gateway: &NewGateway) -> Result<(), Error> {
    let _lock = take_short(LOCK, PATIENCE)?;
    let index = index(host, Ns::Host, &gateway.link)?;
    let socket = host.socket(Ns::Host)?;
    for cidr in gateway.unwanted(&socket.addresses(index, None)?)? {
        accept_absent(socket.remove_address(index, cidr))?;
    }
    accept_existing(socket.add_address(index, gateway.cidr, Dad::Skip))?;
    Ok(())
}

/// Removes an address, if the link and the address exist.
pub(super) fn remove(host: &mut LinuxHost, ns: Ns, name: &IfName, cidr: Cidr) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    if let Some(link) = socket.link(name.as_str())? {
        accept_absent(socket.remove_address(link.index, cidr))?;
    }
    Ok(())
}
