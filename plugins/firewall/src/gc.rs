//! GC: the rules name no container, so what was claimed tells whose they are.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;

use crate::{del, keepers};

/// Removes what belongs to no valid attachment of the network.
///
/// # Errors
/// The first failure, with notes of the others.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut claims = host.addresses_owned_in(&request.network)?;
    claims.retain(|(_, owner)| !valid.contains(owner.container.as_str(), Some(owner.ifname.as_str())));
    let held = keepers::observe_claimed(claims, host)?;
    del::remove(host, &held)
}
