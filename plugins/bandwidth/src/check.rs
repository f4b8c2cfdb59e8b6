//! CHECK: compares the limits, and verifies that packets pass through them.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_interface::verify;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_model::traffic::{RootQdisc, Shaper};
use cni_plugin::host::Host;

use crate::config::Config;
use crate::ifb::{self, IfbNames};
use crate::limit::RateLimit;
use crate::port;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    if config.is_empty() {
        return Ok(());
    }
    let result = port::prev_result(request)?;
    let at = request.attachment()?;
    host.enter(request.netns().unwrap_or_default())?;
    let port = port::require(&at.ifname, &result, host)?;
    if let Some(limit) = &config.ingress {
        verify_limit(&port.link, limit, port.link.mtu, host)?;
    }
    if let Some(limit) = &config.egress {
        let Some(ifb) = ifb::of(&at, Some(&port), host)?.pop() else {
            let IfbNames { shared, own } = IfbNames::of(&at)?;
            let details = format!("the host has neither {shared} nor {own}");
            return Err(fail!(CheckFailed, "get ifb device: Link not found", details: "{details}"));
        };
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
    let (port, ifb) = (&port.name, &ifb.name);
    Err(fail!(CheckFailed, "what the container sends is not limited: nothing leads from {port} to {ifb}"))
}

/// The reference may have made it, so its numbers are fine as well.
fn verify_limit(link: &Link, limit: &RateLimit, mtu: u32, host: &mut dyn Host) -> Result<(), Error> {
    let name = &link.name;
    let found = match host.devices().traffic_control(Ns::Host, link.index)?.root {
        Some(RootQdisc::Shaper(found)) => found,
        // Such as what release 1.5 of the reference made.
        Some(RootQdisc::Other { kind }) => {
            let text = format!("{name} sends by a qdisc of kind {kind}, and not by tbf");
            return Err(fail!(CheckFailed, "Failed to find qdisc: {text}"));
        }
        None => return Err(fail!(CheckFailed, "Failed to find qdisc: {name} sends without a limit")),
    };
    if found == limit.wrapped_shaper() {
        return Ok(());
    }
    verify_numbers(name, &found, &limit.shaper(mtu))
}

fn verify_numbers(link: &str, found: &Shaper, wanted: &Shaper) -> Result<(), Error> {
    for (what, found, wanted) in [
        ("Rate", found.rate, wanted.rate),
        ("Limit", found.limit.into(), wanted.limit.into()),
        ("Buffer", found.buffer.into(), wanted.buffer.into()),
    ] {
        if found != wanted {
            let text = format!("{link} has {found}, and {wanted} was configured");
            return Err(fail!(CheckFailed, "{what} doesn't match: {text}"));
        }
    }
    Ok(())
}
