//! STATUS: checks whether this kernel can carry out the limits. Limits that come from the runtime are not known yet.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::kinds;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::ifb;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    match Config::load(request)?.egress {
        Some(_) => kinds::require(ifb::KIND, host),
        None => Ok(()),
    }
}
