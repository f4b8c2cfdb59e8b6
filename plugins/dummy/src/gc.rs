//! GC: removes the links of attachments that are not valid, before the IPAM plugin releases their addresses.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_interface::child;
use cni_plugin::host::Host;

use crate::KIND;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    child::gc(KIND, request, valid, host)
}
