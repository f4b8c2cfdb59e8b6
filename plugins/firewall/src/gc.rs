//! GC: finds the owners of rules by their claims, since the rules name no container.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;

use crate::{claims, del, locate};

/// Removes what belongs to no valid attachment of the network.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let is_stale = |owner: &Attachment| {
        owner.network == request.network && !valid.contains(owner.container.as_str(), Some(owner.ifname.as_str()))
    };
    let claimed = claims::of_network(&request.network, host.records())?;
    let stale: Vec<IpAddr> =
        claimed.into_iter().filter(|(_, claim)| is_stale(&claim.owner)).map(|(address, _)| address).collect();
    claims::lock(stale.iter().copied(), host);
    let mut leaving = Vec::new();
    for address in stale {
        if let Some(claim) = claims::find(address, host.records())?.filter(|claim| is_stale(&claim.owner)) {
            leaving.push(locate::observe_stale(address, claim, host)?);
        }
    }
    del::remove(leaving, host)
}
