//! STATUS: whether the configuration can be carried out, and what the IPAM plugin says. The device may be in a container now.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_interface::ipam;
use cni_plugin::host::Host;

use crate::config::Config;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    ipam::delegate(config.ipam.as_deref(), Command::Status, host)
}
