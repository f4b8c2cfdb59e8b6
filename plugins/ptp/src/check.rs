//! CHECK: verifies that everything that carries the container's traffic is as ADD made it, at both ends of the pair.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::Attachment;
use cni_core::request::{Command, Request};
use cni_core::result::{CniResult, Interface};
use cni_interface::alias::LinkOwner;
use cni_interface::{ipam, masquerade, verify, veth};
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use crate::config::Config;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let netns = request.netns().unwrap_or_default();
    host.enter(netns)?;
    ipam::delegate(Some(&config.ipam), Command::Check, host)?;
    let result = verify::prev_result(request)?;
    let at = request.attachment()?;
    let reported = verify::interface_of_result(&result, &at.ifname, netns)?;
    let container = check_container(&at, reported, &result, host)?;
    check_host(&at, &container, &result, host)?;
    if config.masquerade {
        masquerade::verify(config.masquerade_backend, &at, &result, host)?;
    }
    Ok(())
}

fn check_container(
    at: &Attachment,
    reported: &Interface,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<Link, Error> {
    let container = verify::present(Ns::Container, &at.ifname, host)?;
    verify::kind(&container, "veth")?;
    verify::mac(&container, reported)?;
    verify::up(Ns::Container, &container)?;
    verify::addresses_and_routes(result, &container, host)?;
    Ok(container)
}

fn check_host(at: &Attachment, container: &Link, result: &CniResult, host: &mut dyn Host) -> Result<(), Error> {
    let end = veth::host_end(container, host)?.filter(|link| LinkOwner::of(link, at) != LinkOwner::Another);
    let ifname = &at.ifname;
    let end = end.ok_or_else(|| fail!(CheckFailed, "the host's end of interface {ifname} not found"))?;
    verify::up(Ns::Host, &end)?;
    let found = host.addresses(Ns::Host, Some(end.index), None)?;
    for ip in result.ips_of(at.ifname.as_str()) {
        let (address, name) = (ip.address.address(), &end.name);
        if let Some(gateway) = ip.gateway.filter(|gateway| found.iter().all(|one| one.cidr.address() != *gateway)) {
            return Err(fail!(CheckFailed, "Failed to match gateway addr {gateway} on interface {name}"));
        }
        if host.link_towards(Ns::Host, address)?.is_none_or(|link| link.index != end.index) {
            return Err(fail!(CheckFailed, "Expected Route to {address} by interface {name} not found on the host"));
        }
    }
    Ok(())
}
