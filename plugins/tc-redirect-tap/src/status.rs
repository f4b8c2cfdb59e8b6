//! STATUS: checks that the kernel can create the device and redirect frames.

use std::path::Path;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::config::Config;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    Config::load(request)?;
    let devices = host.devices().entries(Path::new("/dev/net"))?.unwrap_or_default();
    if !devices.iter().any(|name| name == "tun") {
        return Err(fail!(NotAvailable, "/dev/net/tun does not exist, load the module tun"));
    }
    match host.devices().missing_redirect_part()? {
        Some(part) => Err(fail!(NotAvailable, "the kernel cannot redirect frames, load the module {part}")),
        None => Ok(()),
    }
}
