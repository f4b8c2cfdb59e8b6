//! STATUS: checks the configuration.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::config;

pub fn status(request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
    config::table(request).map(|_| ())
}
