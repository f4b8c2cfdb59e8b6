//! What others have removed of an attachment's rules: those of the masquerade and of the MAC spoof check.
//!
//! It looks, and plans what ADD would have made for the result that it is told. CHECK asks here as well.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::verify;
use cni_netfilter::Backend;
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;
use cni_plugin::plan::Ns;

use crate::check::find_port;
use crate::config::Config;
use crate::masquerade;
use crate::{choose_backend, spoof};

/// The rules of an attachment that are not complete.
///
/// # Errors
/// When the packet filter cannot be read, or the host's end of the veth is not found.
pub fn find_missing(request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
    let config = Config::load(request)?;
    let result = verify::prev_result(request)?;
    let at = request.attachment()?;
    let mut parts = Vec::new();
    if config.spoof_check {
        parts.extend(missing_spoof_check(&config, request, &at, &result, host)?);
    }
    if config.masquerade {
        parts.extend(missing_masquerade(&config, &at, &result, host)?);
    }
    Ok(parts)
}

/// The container may have changed its address since, so the one that ADD has told counts.
fn missing_spoof_check(
    config: &Config,
    request: &Request,
    at: &Attachment,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<Option<MissingPart>, Error> {
    let own = verify::told_mac(verify::told_interface(result, &at.ifname, request.netns().unwrap_or_default())?)?;
    let container = verify::present(Ns::Container, &at.ifname, host)?;
    let bridge = verify::present(Ns::Host, &config.bridge, host)?;
    let port = find_port(config, &at.ifname, &container, &bridge, host)?;
    MissingPart::find(Ns::Host, spoof::ensure(at, &IfName::parse(&port.name)?, &own), host)
}

/// The masquerade's rules that are not complete. Where the configuration does not say what brings it about,
/// either will do: iptables may have been installed, or removed, since ADD.
///
/// # Errors
/// When the packet filter cannot be read.
pub fn missing_masquerade(
    config: &Config,
    at: &Attachment,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<Vec<MissingPart>, Error> {
    let addresses: Vec<Cidr> = result.ips_of(at.ifname.as_str()).map(|ip| ip.address).collect();
    let chosen = choose_backend(config, result, host)?;
    let parts = missing_by(chosen, at, &addresses, host)?;
    let elsewhere = !parts.is_empty()
        && config.masquerade_backend.is_none()
        && missing_by(chosen.other(), at, &addresses, host).is_ok_and(|parts| parts.is_empty());
    Ok(if elsewhere { Vec::new() } else { parts })
}

fn missing_by(
    backend: Backend,
    at: &Attachment,
    addresses: &[Cidr],
    host: &mut dyn Host,
) -> Result<Vec<MissingPart>, Error> {
    let rulesets = masquerade::rulesets(backend, at, addresses).into_iter();
    let parts = rulesets.map(|ruleset| MissingPart::find(Ns::Host, ruleset, host));
    Ok(parts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests;
