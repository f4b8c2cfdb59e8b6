//! Removes a link on a master of the host that a container has moved on, into a network namespace that it has made.
//!
//! The master connects the link to the network of all containers, so its address would be used twice once another container
//! gets it. The kernel says which master a link has, and a container cannot make a link on a master of the host. So DEL
//! recognizes the link by its master and by its MAC address or an address of the result of ADD, unless another attachment
//! has recorded it. A dummy or a tap device has no master: nobody outside of its namespace can use its address.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_model::link::{Link, OtherEnd};
use cni_model::netns::NetnsView;
use cni_model::plan::{Ns, Step};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::namespace::RecordedLink;
use cni_plugin::removal::Removal;

/// Whether a recorded link is in the namespace that is entered. One that has no master on the host counts as there.
pub fn is_in_place(recorded: &RecordedLink, host: &mut dyn Host) -> Result<bool, Error> {
    let Some(parent) = recorded.parent else { return Ok(true) };
    match host.link_by_index(Ns::Container, recorded.index)?.filter(|link| recorded.may_be(link)) {
        Some(link) => leads_to(parent, &link, host),
        None => Ok(false),
    }
}

/// Removes the recorded link of an attachment, which is not in its namespace, from the one that it was moved to. A link that
/// was deleted is success. Namespaces that this process cannot see are skipped.
///
/// # Errors
/// If a namespace cannot be entered, or the kernel refuses; all parts are tried.
pub fn remove(kind: &str, record: &AttachmentRecord, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let Some(recorded) = record.link.as_ref().filter(|link| link.kind == kind) else { return Ok(()) };
    let Some(parent) = recorded.parent else { return Ok(()) };
    // Its children are deleted with a master.
    let Some(master) = host.link_by_index(Ns::Host, parent)? else { return Ok(()) };
    let others = OtherAttachments::observe(record, host)?;
    let expected = ExpectedLink::of(recorded, &master, request);
    let mut removal = Removal::new(host);
    for view in removal.attempt(|host| Ok(host.namespaces().survey())).iter().flat_map(|views| views.iter()) {
        let is_child = |link: &&Link| link.kind.as_deref() == Some(kind) && link.peer == Some(parent);
        for link in view.links.iter().filter(is_child).filter(|link| !others.have(view, link)) {
            removal.attempt(|host| remove_if_own(view, link, parent, &expected, host));
        }
    }
    removal.finish()
}

/// How DEL recognizes the link.
struct ExpectedLink {
    /// Its MAC address, if it is not its master's as well.
    mac: Option<String>,
    /// Its addresses by the result of ADD.
    addresses: Vec<IpAddr>,
}

impl ExpectedLink {
    fn of(recorded: &RecordedLink, master: &Link, request: &Request) -> Self {
        let of_master = master.mac.as_ref().map(ToString::to_string);
        let mac = Some(recorded.mac.clone()).filter(|mac| !mac.is_empty() && Some(mac) != of_master.as_ref());
        let result = request.prev_result().ok().flatten().unwrap_or_default();
        let ifname = request.attachment().map(|at| at.ifname.to_string()).unwrap_or_default();
        Self { mac, addresses: result.ips_of(&ifname).map(|ip| ip.address.address()).collect() }
    }

    /// Whether a link of the entered namespace has the MAC address, or one of the addresses.
    fn is(&self, link: &Link, host: &mut dyn Host) -> Result<bool, Error> {
        if self.mac.is_some() && self.mac == link.mac.as_ref().map(ToString::to_string) {
            return Ok(true);
        }
        let found = host.addresses(Ns::Container, Some(link.index), None)?;
        Ok(found.iter().any(|address| self.addresses.contains(&address.cidr.address())))
    }
}

/// The host, and all recorded attachments except one.
struct OtherAttachments {
    host: Option<String>,
    records: Vec<AttachmentRecord>,
}

impl OtherAttachments {
    fn observe(own: &AttachmentRecord, host: &mut dyn Host) -> Result<Self, Error> {
        let mut records = AttachmentRecord::all(host.records())?;
        records.retain(|one| one.at != own.at);
        Ok(Self { host: host.namespaces().identity(Ns::Host)?, records })
    }

    /// Whether a link that was seen is in the host's own namespace, or is another attachment's.
    fn have(&self, view: &NetnsView, link: &Link) -> bool {
        let is_here = |one: &AttachmentRecord| Some(&one.namespace.identity) == view.identity.as_ref();
        let is_its = |one: &AttachmentRecord| one.link.as_ref().is_some_and(|recorded| recorded.may_be(link));
        view.identity == self.host || self.records.iter().any(|one| is_here(one) && is_its(one))
    }
}

fn remove_if_own(
    view: &NetnsView,
    seen: &Link,
    parent: u32,
    expected: &ExpectedLink,
    host: &mut dyn Host,
) -> Result<(), Error> {
    let Some(path) = host.enter_view(view)? else { return Ok(()) };
    let Some(link) = host.link_by_index(Ns::Container, seen.index)?.filter(|link| link.kind == seen.kind) else {
        return Ok(());
    };
    if !leads_to(parent, &link, host)? || !expected.is(&link, host)? {
        return Ok(());
    }
    log::warn!("the container has moved its interface on: it is removed as {} from {path}", link.name);
    host.apply(&Step::RemoveLink { ns: Ns::Container, name: IfName::parse(&link.name)? }).map(drop)
}

/// Whether a link of the namespace that is entered is on a master of the host.
fn leads_to(parent: u32, link: &Link, host: &mut dyn Host) -> Result<bool, Error> {
    Ok(host.devices().other_end(Ns::Container, link)? == Some(OtherEnd { index: Some(parent), netns: None }))
}

#[cfg(test)]
mod tests;
