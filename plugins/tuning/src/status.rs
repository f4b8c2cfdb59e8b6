//! STATUS: checks the configuration, and that the administrator allows its parameters.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::allow;
use crate::config::Config;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    allow::verify(&Config::load(request)?.parameters, host)
}
