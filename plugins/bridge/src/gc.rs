//! GC: removes what belongs to no valid attachment of the network.
//!
//! The comment of a masquerade rule and the alias of a link name their owner, so both are found without a record. The
//! check of MAC addresses is removed with its link, or after it; the reference's names of the check do not contain the
//! network.
//! Rules are removed before the IPAM plugin releases their addresses. It is not called if a link cannot be removed; `dhcp` is called before,
//! since it releases an address by the link.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_interface::{ipam, leftovers, masquerade};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::spoof;

/// Removes what is stale. A part that fails does not keep the others.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let network = &request.network;
    let mut removal = Removal::new(host);
    removal.attempt(|host| masquerade::remove_stale(network, valid, host));
    ipam::gc_with(request, &mut removal, |removal| {
        let kept = leftovers::remove_invalid_veths(request, valid, removal);
        removal.attempt(|host| spoof::remove_orphans(network, valid, host));
        kept
    });
    removal.finish()
}
