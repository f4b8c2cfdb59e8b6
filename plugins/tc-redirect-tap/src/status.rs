//! STATUS: checks that the kernel can create the device and redirect frames.

use std::path::Path;

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_model::traffic::RedirectPart;
use cni_plugin::host::Host;

use crate::config::Config;

/// The kernel lacks something.
#[derive(Debug, thiserror::Error)]
enum StatusError {
    #[error("/dev/net/tun does not exist, load the module tun")]
    NoDriver,
    #[error("the kernel cannot redirect frames, load the module {part}")]
    NoPart { part: RedirectPart },
}

impl Failure for StatusError {
    fn code(&self) -> Code {
        match self {
            Self::NoDriver | Self::NoPart { .. } => Code::NotAvailable,
        }
    }
}

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    Config::load(request)?;
    let devices = host.devices().entries(Path::new("/dev/net"))?.unwrap_or_default();
    if !devices.iter().any(|name| name == "tun") {
        return Err(StatusError::NoDriver.into());
    }
    match host.devices().missing_redirect_part()? {
        Some(part) => Err(StatusError::NoPart { part }.into()),
        None => Ok(()),
    }
}
