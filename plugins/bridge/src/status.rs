//! STATUS: asks the IPAM plugin.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_interface::ipam;
use cni_plugin::host::Host;

use crate::config::ipam_plugin;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    ipam::delegate(ipam_plugin(request)?.as_deref(), Command::Status, host)
}
