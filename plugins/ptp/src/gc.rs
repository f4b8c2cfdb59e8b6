//! GC: removes what belongs to no valid attachment of the network. The comment of a rule and the alias of a link name
//! their owner. Rules are removed before the IPAM plugin releases their addresses. It is not called if a link cannot be
//! removed.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_interface::{ipam, leftovers, masquerade};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    removal.attempt(|host| masquerade::remove_stale(&request.network, valid, host));
    ipam::gc_with(request, &mut removal, |removal| leftovers::remove_invalid_veths(request, valid, removal));
    removal.finish()
}
