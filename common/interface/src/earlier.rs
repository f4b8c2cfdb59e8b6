//! Finds the interface that an earlier ADD made for the same attachment, in a namespace that still exists but that the
//! runtime may have lost.
//!
//! Nomad loses a namespace when a CHECK fails while the task keeps running: it removes the name of the namespace without a
//! DEL, makes a new namespace, and calls ADD for the same container. If the address were assigned again, the running
//! task would keep an address that no longer leads to it.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_model::link::{Address, Link};
use cni_model::plan::{Ns, Step, Until};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::namespace::Life;

use crate::alias::{self, LinkOwner};

/// Finds the host's end of a veth through which the attachment still uses the address. Its alias names the attachment;
/// a veth of the reference plugins has no alias, and is found by the address at its other end.
pub fn find_in_use(at: &Attachment, address: IpAddr, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    let has_address = |found: Vec<Address>| found.iter().any(|one| one.cidr.address() == address);
    for link in host.links(Ns::Host, LinkQuery::Kind("veth"))? {
        let is_in_use = match LinkOwner::of(&link, at) {
            LinkOwner::This => host.namespaces().peer_addresses(&link)?.is_some(),
            LinkOwner::Another => false,
            LinkOwner::Unlabelled => host.namespaces().peer_addresses(&link)?.is_some_and(has_address),
        };
        if is_in_use {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

/// Whether a veth of the host belongs to the attachment and leads to another namespace than the entered one: an earlier
/// ADD made it, and no DEL followed.
pub fn has_interface(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    for link in host.links(Ns::Host, LinkQuery::Kind("veth"))? {
        let is_named = link.alias.as_deref().is_some_and(|alias| alias::may_name(alias, at));
        if is_named && host.links(Ns::Container, LinkQuery::PeerOf(&link))?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An address that an attachment still has in the namespace of an earlier ADD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressInUse {
    /// The address.
    pub address: IpAddr,
    /// A path to that namespace; if none is known, a phrase with its former path, which may lead to the new namespace by now.
    pub place: String,
}

/// Finds one of the addresses in the recorded namespace of an earlier ADD of the attachment, if that namespace still exists
/// and is not the one that is entered.
pub fn find_recorded(
    at: &Attachment,
    addresses: &[IpAddr],
    host: &mut dyn Host,
) -> Result<Option<AddressInUse>, Error> {
    let Some(record) = AttachmentRecord::find(at, host) else { return Ok(None) };
    let is_entered = host.namespaces().identity(Ns::Container)?.as_ref() == Some(&record.namespace.identity);
    if is_entered || record.life(host) != Life::Alive {
        return Ok(None);
    }
    let Some(inside) = record.addresses(host)? else {
        return find_by_process(&record.namespace.identity, addresses, host);
    };
    let Some(address) = first_among(addresses, &inside) else { return Ok(None) };
    let process = host.namespaces().path_by_process(&record.namespace.identity)?;
    let unknown = || format!("one in which no process was found, formerly {}", record.namespace.path);
    Ok(Some(AddressInUse { address, place: process.unwrap_or_else(unknown) }))
}

/// Finds one of the addresses in the namespace of this identity, if a process is in it. Afterwards the one that was entered
/// before is entered again.
pub fn find_by_process(
    identity: &str,
    addresses: &[IpAddr],
    host: &mut dyn Host,
) -> Result<Option<AddressInUse>, Error> {
    let Some(place) = host.namespaces().path_by_process(identity)? else { return Ok(None) };
    host.elsewhere(|host| {
        // The process may have ended since, and another one has its number.
        if host.enter(&place).is_err() || host.namespaces().identity(Ns::Container)?.as_deref() != Some(identity) {
            return Ok(None);
        }
        let inside = host.addresses(Ns::Container, None, None)?;
        Ok(first_among(addresses, &inside).map(|address| AddressInUse { address, place }))
    })
}

fn first_among(addresses: &[IpAddr], inside: &[Address]) -> Option<IpAddr> {
    inside.iter().map(|one| one.cidr.address()).find(|address| addresses.contains(address))
}

/// Waits a moment for the end of the namespace that a veth of the host leads to: its last process may have ended just now.
/// Returns whether the namespace has ended.
pub fn await_end(name: IfName, host: &mut dyn Host) -> bool {
    let end = Step::Await { ns: Ns::Host, name, until: Until::PeerGone };
    host.apply(&end).inspect_err(|error| log::debug!("{error}")).is_ok()
}
