//! CHECK: verifies that the device is as ADD made it.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_interface::child;
use cni_model::link::Link;
use cni_model::plan::TapOptions;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::{KIND, bridge};

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let mut found = None;
    child::check(KIND, config.ipam.as_deref(), request, host, |link| {
        found = Some(link.clone());
        same(link, config.tap)
    })?;
    match (found, &config.bridge) {
        (Some(link), Some(name)) => bridge::require_port(&link, name, host),
        (Some(_) | None, _) => Ok(()),
    }
}

/// Compares the device with the configuration. Kernels before 4.17 do not report its properties.
fn same(link: &Link, wanted: TapOptions) -> Result<(), Error> {
    match link.tap {
        Some(found) if found != wanted => {
            let name = &link.name;
            Err(fail!(CheckFailed, "interface {name} is {found}, and not {wanted}"))
        }
        Some(_) | None => Ok(()),
    }
}
