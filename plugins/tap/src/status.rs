//! STATUS: checks that the kernel has the driver, and asks the IPAM plugin.

use std::path::Path;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::{Command, Request};
use cni_interface::ipam;
use cni_plugin::host::Host;

use crate::config::Config;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let devices = host.devices().entries(Path::new("/dev/net"))?.unwrap_or_default();
    if !devices.iter().any(|name| name == "tun") {
        return Err(fail!(NotAvailable, "/dev/net/tun does not exist, load the module tun"));
    }
    ipam::delegate(config.ipam.as_deref(), Command::Status, host)
}
