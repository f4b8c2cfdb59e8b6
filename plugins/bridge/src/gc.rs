//! GC: removes what belongs to no valid attachment of the network.
//!
//! The comment of a masquerade rule and the alias of a link name their owner, so both are found without a record. The
//! check of MAC addresses is removed with its link, or after it; the reference's names of the check do not contain the
//! network.
//! Rules are removed before the IPAM plugin releases their addresses. It is not called if a link cannot be removed; `dhcp` is called before,
//! since it releases an address by the link.

use cni_core::error::Error;
use cni_core::names::{IfName, NetworkName};
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_interface::leftovers::stale_links;
use cni_interface::{alias, ipam, masquerade};
use cni_model::link::Link;
use cni_model::plan::{Ns, Step};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::spoof;

/// Removes what is stale. A part that fails does not keep the others.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let network = &request.network;
    let mut removal = Removal::new(host);
    removal.attempt(|host| masquerade::remove_stale(network, valid, host));
    ipam::gc_with(request, &mut removal, |removal| {
        let removed = removal.attempt(|host| remove_links(network, valid, host));
        removal.attempt(|host| spoof::remove_orphans(network, valid, host));
        removed.map(|()| Vec::new())
    });
    removal.finish()
}

fn remove_links(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let links = stale_links(network, valid, host)?;
    let mut removal = Removal::new(host);
    for link in links {
        removal.attempt(|host| remove_link(host, &link, network));
    }
    removal.finish()
}

/// Removes a link and the check of its MAC address.
fn remove_link(host: &mut dyn Host, link: &Link, network: &NetworkName) -> Result<(), Error> {
    let name = IfName::parse(&link.name)?;
    let mut removal = Removal::new(host);
    removal.step(&Step::RemoveLink { ns: Ns::Host, name });
    if let Some(at) = link.alias.as_deref().and_then(|alias| alias::owner(alias, network)) {
        removal.attempt(|host| spoof::remove(&at, host));
    }
    removal.finish()
}
