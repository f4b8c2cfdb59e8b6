//! GC: the rules name no container, so what was claimed tells whose they are.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;

use crate::claims::{self, Claim};
use crate::del;
use crate::locate::OwnedAddress;

/// Removes what belongs to no valid attachment of the network.
///
/// # Errors
/// The first failure, with notes of the others.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let claimed = claims::of_network(&request.network, host.records())?.into_iter();
    let owned = claimed.map(|(address, Claim { owner, backends })| OwnedAddress { address, owner, backends });
    let is_valid = |owner: &Attachment| valid.contains(owner.container.as_str(), Some(owner.ifname.as_str()));
    del::remove(owned.filter(|owned| !is_valid(&owned.owner)).collect(), host)
}
