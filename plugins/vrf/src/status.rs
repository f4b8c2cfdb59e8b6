//! STATUS: checks the configuration, and that the kernel has VRFs.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::kinds;
use cni_plugin::host::Host;

use crate::config::Config;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    Config::load(request)?;
    kinds::require("vrf", host)
}
