//! STATUS: checks that this kernel and this master can carry out the configuration, and asks the IPAM plugin.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::child;
use cni_plugin::host::Host;

use crate::KIND;
use crate::config::Config;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    child::status(KIND, &config.master, Some(&config.ipam), host)
}
