//! Removes a link on a master of the host that a container has moved on, into a network namespace that it has made.
//!
//! The master connects the link to the network of all containers, so its address would be used twice once another container
//! gets it. A dummy or a tap device has no master: nobody outside of its namespace can use its address.
//!
//! The kernel says which master a link has. But the master has links of other containers, and a container can make more: a
//! macvlan on its macvlan, or an ipvlan on its ipvlan, gets the master of the host. So a link elsewhere is the attachment's
//! only if it has the recorded MAC address, or an address of the result that host-local still leases to the attachment. It
//! is another's in a namespace that is recorded for another attachment, from the beginning of its ADD.
//!
//! What is not found: a link without these signs, and one that has left a link with the recorded index and MAC address in
//! its place.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::Attachment;
use cni_core::request::{Command, Request};
use cni_model::link::{Link, OtherEnd};
use cni_model::netns::NetnsView;
use cni_model::plan::{Ns, Step};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::namespace::RecordedLink;
use cni_plugin::removal::Removal;

use crate::ipam;

/// The IPAM plugin whose CHECK says whether an address is still the attachment's. That of others may succeed without a
/// lease.
const LESSOR: &str = "host-local";

/// The recorded link of an attachment, on a master of the host.
pub struct ExpectedLink<'a> {
    kind: &'static str,
    record: &'a AttachmentRecord,
    recorded: &'a RecordedLink,
    /// The index of the master.
    parent: u32,
    /// Its MAC address, if no other link of the master has it by itself.
    mac: Option<&'a str>,
    /// Its addresses by the result of ADD, if there is one.
    addresses: Vec<IpAddr>,
    request: &'a Request,
}

impl<'a> ExpectedLink<'a> {
    /// Reads the record. `None` if no link of the kind is recorded, or if it has no master on the host: its children are
    /// deleted with a master.
    pub fn of(
        kind: &'static str,
        record: &'a AttachmentRecord,
        request: &'a Request,
        host: &mut dyn Host,
    ) -> Result<Option<Self>, Error> {
        let Some(recorded) = record.link.as_ref().filter(|link| link.kind == kind) else { return Ok(None) };
        let Some(parent) = recorded.parent else { return Ok(None) };
        let Some(master) = host.link_by_index(Ns::Host, parent)? else { return Ok(None) };
        let is_of_master = mac_of(&master).as_ref() == Some(&recorded.mac);
        // A vlan or an ipvlan has the MAC address that the master has or had.
        let is_own = kind == "macvlan" && !is_of_master && !recorded.mac.is_empty();
        let result = request.prev_result().ok().flatten().unwrap_or_default();
        let addresses = result.ips_of(record.at.ifname.as_str()).map(|ip| ip.address.address()).collect();
        let mac = Some(recorded.mac.as_str()).filter(|_| is_own);
        Ok(Some(Self { kind, record, recorded, parent, mac, addresses, request }))
    }

    /// Whether the link is in the namespace that is entered, and no other link is in its place.
    pub fn is_in_entered(&self, host: &mut dyn Host) -> Result<bool, Error> {
        let found = host.link_by_index(Ns::Container, self.recorded.index)?;
        let Some(link) = found.filter(|link| self.recorded.may_be(link)) else { return Ok(false) };
        // The kernel gives an address to one ipvlan of a master only.
        let has_addresses = self.kind != "ipvlan" || {
            let found = addresses_of(&link, host)?;
            self.addresses.iter().all(|address| found.contains(address))
        };
        Ok(has_addresses && self.mac.is_none_or(|_| self.has_mac(&link)) && self.leads_to_master(&link, host)?)
    }

    /// The same for a link of the recorded namespace, which is known by its number only.
    pub fn is_certainly(&self, link: &Link) -> bool {
        self.kind != "ipvlan" && self.recorded.may_be(link) && self.mac.is_none_or(|_| self.has_mac(link))
    }

    /// Removes the link from the namespace that it was moved to, and returns whether it was found. A link that was deleted is
    /// success. Namespaces that this process cannot see are skipped. The same namespace is entered afterwards.
    ///
    /// # Errors
    /// If a namespace with links on the master cannot be entered, or the kernel refuses; all parts are tried.
    pub fn remove_elsewhere(&self, host: &mut dyn Host) -> Result<bool, Error> {
        if self.mac.is_none() && self.addresses.is_empty() {
            return Ok(false);
        }
        let of_host = host.namespaces().identity(Ns::Host)?;
        let views = host.namespaces().survey(Some(self.kind));
        let mut removal = Removal::new(host);
        let has_children = |view: &&NetnsView| view.links.iter().any(|link| self.is_on_master(link));
        let mut is_found = false;
        for view in views.iter().filter(has_children).filter(|view| view.identity != of_host) {
            is_found |= removal.attempt(|host| host.elsewhere(|host| self.remove_from(view, host))) == Some(true);
        }
        removal.finish().map(|()| is_found)
    }

    /// Fails if the link, which was not found, may be in a namespace that was not searched.
    pub fn require_all_searched(&self, host: &mut dyn Host) -> Result<(), Error> {
        let at = &self.record.at;
        host.namespaces().unseen(Some(self.kind)).map_or(Ok(()), |gaps| Err(not_searched(at, &gaps)))
    }

    fn remove_from(&self, view: &NetnsView, host: &mut dyn Host) -> Result<bool, Error> {
        let Some(path) = host.enter_view(view)? else { return Ok(false) };
        let links = host.links(Ns::Container, LinkQuery::Kind(self.kind))?;
        let mut removal = Removal::new(host);
        let mut is_found = false;
        for link in links.iter().filter(|link| self.is_on_master(link)) {
            if removal.attempt(|host| self.is(link, host)) == Some(true) {
                is_found = true;
                log::warn!("the container has moved its interface on: it is removed as {} from {path}", link.name);
                removal.step(&Step::RemoveLinkByIndex { ns: Ns::Container, index: link.index });
            }
        }
        removal.finish().map(|()| is_found)
    }

    /// Whether a link of the entered namespace is the expected one. The records are read after the link was seen: an ADD
    /// records the namespace before it makes the link.
    fn is(&self, link: &Link, host: &mut dyn Host) -> Result<bool, Error> {
        let has_mac = self.has_mac(link);
        let may_be_it = has_mac || self.has_address(link, host)?;
        Ok(may_be_it
            && self.leads_to_master(link, host)?
            && !self.is_of_another(link, host)?
            && (has_mac || self.is_leased(host)))
    }

    fn is_on_master(&self, link: &Link) -> bool {
        link.kind.as_deref() == Some(self.kind) && link.peer == Some(self.parent)
    }

    /// Whether the master of a link of the entered namespace is the host's.
    fn leads_to_master(&self, link: &Link, host: &mut dyn Host) -> Result<bool, Error> {
        let of_host = OtherEnd { index: Some(self.parent), netns: None };
        Ok(host.devices().other_end(Ns::Container, link)? == Some(of_host))
    }

    fn has_mac(&self, link: &Link) -> bool {
        self.mac.is_some() && self.mac == mac_of(link).as_deref()
    }

    fn has_address(&self, link: &Link, host: &mut dyn Host) -> Result<bool, Error> {
        Ok(addresses_of(link, host)?.iter().any(|address| self.addresses.contains(address)))
    }

    /// Whether a link of the entered namespace is another attachment's, or may be. In the attachment's own namespace are
    /// other interfaces of the container.
    fn is_of_another(&self, link: &Link, host: &mut dyn Host) -> Result<bool, Error> {
        let entered = host.namespaces().identity(Ns::Container)?;
        let is_own_namespace = entered.as_ref() == Some(&self.record.namespace.identity);
        let records = AttachmentRecord::all(host.ledger())?;
        Ok(records.iter().filter(|one| one.at != self.record.at).any(|one| {
            let is_here = entered.as_ref() == Some(&one.namespace.identity);
            let recorded = one.link.as_ref();
            let may_be_its = !is_own_namespace || recorded.is_none_or(|recorded| recorded.may_be(link));
            is_here && may_be_its || recorded.is_some_and(|recorded| self.is_moved(recorded, link))
        }))
    }

    /// Whether a link may be another attachment's that was moved on.
    fn is_moved(&self, recorded: &RecordedLink, link: &Link) -> bool {
        let is_of_kind = recorded.kind == self.kind && recorded.parent == Some(self.parent);
        self.mac.is_some() && is_of_kind && mac_of(link).as_ref() == Some(&recorded.mac)
    }

    /// Whether the addresses of the result are still the attachment's. An earlier DEL may have released them, and another
    /// container may have got them.
    fn is_leased(&self, host: &mut dyn Host) -> bool {
        if ipam::plugin_of(self.request).as_deref() != Some(LESSOR) {
            return false;
        }
        let check = self.request.with_netns(&self.record.namespace.path);
        let checked = host.delegate(LESSOR, Command::Check, Some(&check));
        checked.inspect_err(|error| log::info!("a link with its address is left alone: {}", error.in_full())).is_ok()
    }
}

fn mac_of(link: &Link) -> Option<String> {
    link.mac.as_ref().map(ToString::to_string)
}

/// The addresses of a link of the namespace that is entered.
pub fn addresses_of(link: &Link, host: &mut dyn Host) -> Result<Vec<IpAddr>, Error> {
    let found = host.addresses(Ns::Container, Some(link.index), None)?;
    Ok(found.iter().map(|address| address.cidr.address()).collect())
}

/// The link of an attachment may be in a namespace which was not searched, for these reasons.
pub fn not_searched(Attachment { container, ifname, .. }: &Attachment, gaps: &str) -> Error {
    let text = format!("the interface {ifname} of {container} may be in a network namespace that cannot be searched");
    fail!(TryAgain, "{text}", details: "{gaps}")
}
