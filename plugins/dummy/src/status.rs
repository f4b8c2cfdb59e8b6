//! STATUS: whether the configuration can be carried out on this kernel, and what the IPAM plugin says.

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
