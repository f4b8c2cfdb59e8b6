//! GC: removes what belongs to no valid attachment of the network. The comment of a rule and the alias of a link name
//! their owner. Rules are removed before the IPAM plugin releases their addresses. It is not called if a link cannot be
//! removed.

use cni_core::error::Error;
use cni_core::names::{IfName, NetworkName};
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_interface::leftovers::stale_links;
use cni_interface::{ipam, masquerade};
use cni_model::plan::{Ns, Step};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let network = &request.network;
    let mut removal = Removal::new(host);
    removal.attempt(|host| masquerade::remove_stale(network, valid, host));
    ipam::gc_with(request, &mut removal, |removal| {
        removal.attempt(|host| remove_links(network, valid, host)).map(|()| Vec::new())
    });
    removal.finish()
}

fn remove_links(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let links = stale_links(network, valid, host)?;
    let mut removal = Removal::new(host);
    for link in links {
        removal.attempt(|host| {
            let name = IfName::parse(&link.name)?;
            host.apply(&Step::RemoveLink { ns: Ns::Host, name })
        });
    }
    removal.finish()
}
