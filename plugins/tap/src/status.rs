//! STATUS: checks that the kernel has the driver, and asks the IPAM plugin.

use std::path::Path;

use cni_core::error::{Code, Error, Failure};
use cni_core::request::{Command, Request};
use cni_interface::ipam;
use cni_plugin::host::Host;

use crate::config::Config;

/// There is no driver, so no device can be made.
#[derive(Debug, thiserror::Error)]
#[error("/dev/net/tun does not exist, load the module tun")]
struct NoDriverError;

impl Failure for NoDriverError {
    fn code(&self) -> Code {
        Code::NotAvailable
    }
}

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let devices = host.devices().entries(Path::new("/dev/net"))?.unwrap_or_default();
    if !devices.iter().any(|name| name == "tun") {
        return Err(NoDriverError.into());
    }
    ipam::delegate(config.ipam.as_deref(), Command::Status, host)
}
