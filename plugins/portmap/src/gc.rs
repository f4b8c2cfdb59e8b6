//! GC: removes what belongs to no valid attachment of the network, in both back ends.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::{contested, iptables, nftables};

/// Removes what is stale. A backend or a family that fails does not keep the others.
pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    let from_iptables = removal.attempt(|host| iptables::gc(host, &request.network, valid));
    let from_nftables = removal.attempt(|host| nftables::gc(host, &request.network, valid));
    if from_iptables.is_some() && from_nftables.is_some() {
        removal.attempt(|host| contested::forget_stale(&request.network, valid, host));
    }
    removal.finish()
}
