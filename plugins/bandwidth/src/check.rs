//! CHECK: compares the limits, and verifies that packets pass through them.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::verify;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_model::traffic::{RootQdisc, Shaper};
use cni_plugin::host::Host;

use crate::config::Config;
use crate::error::{BandwidthError, CheckError};
use crate::ifb::{self, IfbNames};
use crate::limit::RateLimit;
use crate::port;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    if config.is_empty() {
        return Ok(());
    }
    let result = request.prev_result()?.ok_or(BandwidthError::NoPrevResult)?;
    let at = request.attachment()?;
    host.enter(request.netns().unwrap_or_default())?;
    let port = port::require(&at.ifname, &result, host)?;
    if let Some(limit) = &config.ingress {
        verify_limit(&port.link, limit, port.link.mtu, host)?;
    }
    if let Some(limit) = &config.egress {
        let names = || IfbNames::of(&at).map(|names| CheckError::NoIfb { names: names.texts() });
        let Some(ifb) = ifb::of(&at, Some(&port), host)?.pop() else { return Err(names()?.into()) };
        verify_redirect(&port.link, &ifb, host)?;
        verify::up(Ns::Host, &ifb)?;
        verify_limit(&ifb, limit, port.link.mtu, host)?;
    }
    Ok(())
}

fn verify_redirect(port: &Link, ifb: &Link, host: &mut dyn Host) -> Result<(), Error> {
    if host.devices().traffic_control(Ns::Host, port.index)?.redirects.contains(&ifb.index) {
        return Ok(());
    }
    Err(CheckError::NoRedirect { port: port.name.clone(), ifb: ifb.name.clone() }.into())
}

/// The reference may have made it, so its numbers are fine as well.
fn verify_limit(link: &Link, limit: &RateLimit, mtu: u32, host: &mut dyn Host) -> Result<(), Error> {
    let name = link.name.clone();
    let found = match host.devices().traffic_control(Ns::Host, link.index)?.root {
        Some(RootQdisc::Shaper(found)) => found,
        Some(RootQdisc::Other { kind }) => return Err(CheckError::OtherQdisc { link: name, kind }.into()),
        None => return Err(CheckError::NoShaper { link: name }.into()),
    };
    if found == limit.wrapped_shaper() {
        return Ok(());
    }
    Ok(verify_numbers(&name, &found, &limit.shaper(mtu))?)
}

fn verify_numbers(link: &str, found: &Shaper, wanted: &Shaper) -> Result<(), CheckError> {
    for (what, found, wanted) in [
        ("Rate", found.rate, wanted.rate),
        ("Limit", found.limit.into(), wanted.limit.into()),
        ("Buffer", found.buffer.into(), wanted.buffer.into()),
    ] {
        if found != wanted {
            return Err(CheckError::Number { what, link: link.to_owned(), found, wanted });
        }
    }
    Ok(())
}
