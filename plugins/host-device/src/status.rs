//! STATUS: checks the configuration, and asks the IPAM plugin. The device may be in a container at the moment.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_interface::ipam;
use cni_plugin::host::Host;

use crate::config::Config;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    ipam::delegate(config.ipam.as_deref(), Command::Status, host)
}
