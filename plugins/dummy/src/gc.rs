//! GC: removes the links of attachments that are not valid, before the IPAM plugin releases their addresses.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_core::valid::ValidAttachments;
use cni_interface::{ipam, leftovers};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::KIND;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    removal.attempt(|host| leftovers::remove_invalid_children(KIND, &request.network, valid, host));
    removal.attempt(|host| ipam::forward(request, Command::Gc, host));
    removal.finish()
}
