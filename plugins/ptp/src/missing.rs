//! Finds missing masquerade rules of an attachment.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::{masquerade, verify};
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;

use crate::config::Config;

pub fn find_missing(request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
    let config = Config::load(request)?;
    if !config.masquerade {
        return Ok(Vec::new());
    }
    let (at, result) = (request.attachment()?, verify::prev_result(request)?);
    masquerade::find_missing(config.masquerade_backend, &at, &result, host)
}
