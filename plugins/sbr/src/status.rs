//! STATUS: checks the configuration.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::config::Config;

pub fn status(request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
    Config::load(request).map(|_| ())
}
