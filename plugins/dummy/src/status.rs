//! STATUS: checks that the kernel can carry out the configuration, and asks the IPAM plugin.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_interface::{ipam, kinds};
use cni_plugin::host::Host;

use crate::config::Config;

use crate::KIND;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    kinds::require(KIND, host)?;
    ipam::delegate(Some(&config.ipam), Command::Status, host)
}
