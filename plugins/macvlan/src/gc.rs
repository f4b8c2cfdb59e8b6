//! GC: runs GC of the IPAM plugin. The kernel deletes the links with the namespaces of their containers.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_core::valid::ValidAttachments;
use cni_interface::ipam;
use cni_plugin::host::Host;

pub fn gc(request: &Request, _valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    ipam::forward(request, Command::Gc, host)
}
