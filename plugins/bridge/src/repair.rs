//! What others have removed of an attachment's rules: those of the masquerade and of the MAC spoof check.
//!
//! It looks, and plans what ADD would have made for the result that it is told. CHECK asks here as well.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::verify;
use cni_plugin::host::Host;
use cni_plugin::plan::Ns;
use cni_plugin::repair::Lack;

use crate::check::find_port;
use crate::config::Config;
use crate::masquerade::{self, Backend};
use crate::{choose_backend, spoof};

/// The rules of an attachment that are not complete.
///
/// # Errors
/// When the packet filter cannot be read, or the host's end of the veth is not found.
pub fn lacks(request: &Request, host: &mut dyn Host) -> Result<Vec<Lack>, Error> {
    let config = Config::load(request)?;
    let result = verify::prev_result(request)?;
    let at = request.attachment()?;
    let mut lacks = Vec::new();
    if config.spoof_check {
        lacks.extend(spoof_lack(&config, request, &at, &result, host)?);
    }
    if config.masquerade {
        lacks.extend(masquerade_lacks(&config, &at, &result, host)?);
    }
    Ok(lacks)
}

/// The container may have changed its address since, so the one that ADD has told counts.
fn spoof_lack(
    config: &Config,
    request: &Request,
    at: &Attachment,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<Option<Lack>, Error> {
    let own = verify::told_mac(verify::told_interface(result, &at.ifname, request.netns().unwrap_or_default())?)?;
    let container = verify::present(Ns::Container, &at.ifname, host)?;
    let bridge = verify::present(Ns::Host, &config.bridge, host)?;
    let port = find_port(config, &at.ifname, &container, &bridge, host)?;
    Lack::of_nftables(spoof::ensure(at, &IfName::parse(&port.name)?, &own), host)
}

/// The masquerade's rules that are not complete. Where the configuration does not say what brings it about,
/// either will do: iptables may have been installed, or removed, since ADD.
///
/// # Errors
/// When the packet filter cannot be read.
pub fn masquerade_lacks(
    config: &Config,
    at: &Attachment,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<Vec<Lack>, Error> {
    let chosen = choose_backend(config, result, host);
    let addresses: Vec<Cidr> = result.ips_of(at.ifname.as_str()).map(|ip| ip.address).collect();
    let lacks = lacks_by(chosen, at, &addresses, host)?;
    let other = match chosen {
        Backend::Iptables => Backend::Nftables,
        Backend::Nftables => Backend::Iptables,
    };
    let elsewhere = !lacks.is_empty()
        && config.masquerade_backend.is_none()
        && lacks_by(other, at, &addresses, host).is_ok_and(|lacks| lacks.is_empty());
    Ok(if elsewhere { Vec::new() } else { lacks })
}

fn lacks_by(backend: Backend, at: &Attachment, addresses: &[Cidr], host: &mut dyn Host) -> Result<Vec<Lack>, Error> {
    let mut lacks = Vec::new();
    match backend {
        Backend::Iptables => {
            for want in masquerade::iptables::ensure(at, addresses) {
                lacks.extend(Lack::of_rules(want, host)?);
            }
        }
        Backend::Nftables => lacks.extend(Lack::of_nftables(masquerade::ensure(at, addresses), host)?),
    }
    Ok(lacks)
}

#[cfg(test)]
mod tests;
