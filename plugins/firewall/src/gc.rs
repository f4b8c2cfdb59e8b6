//! GC: finds the owners of rules by their claims, since the rules name no container.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;

use crate::{claims, del, locate};

/// Removes what belongs to no valid attachment of the network.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let is_valid = |owner: &Attachment| valid.contains(owner.container.as_str(), Some(owner.ifname.as_str()));
    let mut leaving = Vec::new();
    for (address, claim) in claims::of_network(&request.network, host.records())? {
        if !is_valid(&claim.owner) {
            leaving.push(locate::observe_stale(address, claim, host)?);
        }
    }
    del::remove(leaving, host)
}
