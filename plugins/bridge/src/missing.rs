//! Finds missing rules of an attachment: those of the masquerade and of the MAC spoof check.
//!
//! It compares the host with what ADD has made for the given result, and plans what is missing. CHECK uses it as well.

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::{masquerade, verify};
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;

use crate::config::Config;
use crate::ports;
use crate::spoof::{self, CheckNames};

/// The rules of an attachment that are not complete.
pub fn find_missing(request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
    let config = Config::load(request)?;
    let result = verify::prev_result(request)?;
    let at = request.attachment()?;
    let mut parts = Vec::new();
    if config.spoof_check {
        parts.extend(missing_spoof_check(&config, request, &at, &result, host)?);
    }
    if config.masquerade {
        parts.extend(masquerade::find_missing(config.masquerade_backend, &at, &result, host)?);
    }
    Ok(parts)
}

/// The container may have changed its address since, so the one in ADD's result counts.
fn missing_spoof_check(
    config: &Config,
    request: &Request,
    at: &Attachment,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<Option<MissingPart>, Error> {
    let own =
        verify::mac_of_result(verify::interface_of_result(result, &at.ifname, request.netns().unwrap_or_default())?)?;
    let container = match recorded_link(at, host)? {
        Some(link) => link,
        None => verify::present(Ns::Container, &at.ifname, host)?,
    };
    let bridge = verify::present(Ns::Host, &config.bridge, host)?;
    let port = ports::find(config, at, &container, &bridge, host)?;
    let names = CheckNames::find(at, host)?;
    MissingPart::find(Ns::Host, spoof::ensure(&names, &IfName::parse(&port.name)?, &own), host)
}

/// The interface that ADD has recorded, which the container may have renamed.
fn recorded_link(at: &Attachment, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    let recorded = AttachmentRecord::find(at, host).and_then(|record| record.link);
    let Some(recorded) = recorded else { return Ok(None) };
    Ok(host.link_by_index(Ns::Container, recorded.index)?.filter(|link| recorded.may_be(link)))
}
