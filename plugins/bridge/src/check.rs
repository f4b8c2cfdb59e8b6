//! CHECK: verifies that everything that carries the container's traffic is as ADD made it. It changes nothing.
//!
//! What does not matter to traffic is ignored: the MAC address of the host's end (udev may change it), promiscuous
//! mode that a packet sniffer has set, routes and addresses that ADD did not add.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::{Command, Request};
use cni_core::result::{CniResult, Interface};
use cni_interface::network::HostGateway;
use cni_interface::{ipam, masquerade, verify};
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_netfilter::Ruleset;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::ports;
use crate::spoof::{self, CheckNames};

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    host.enter(request.netns().unwrap_or_default())?;
    ipam::delegate(config.ipam.as_deref(), Command::Check, host)?;
    compare(&config, request, host)
}

/// Compares the host with the result of ADD, and returns the first difference.
fn compare(config: &Config, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let result = verify::prev_result(request)?;
    let at = request.attachment()?;
    let reported = verify::interface_of_result(&result, &at.ifname, request.netns().unwrap_or_default())?;
    let bridge = check_bridge(config, &result, host)?;
    let container = check_container(config, &at.ifname, reported, host)?;
    let port = ports::find(config, &at, &container, &bridge, host)?;
    ports::check(config, &port, host)?;
    if config.spoof_check {
        check_spoof(&at, &port, &container, host)?;
    }
    verify::addresses_and_routes(&result, &container, host)?;
    check_gateways(config, &result, &bridge, host)?;
    if config.masquerade {
        masquerade::verify(config.masquerade_backend, &at, &result, host)?;
    }
    Ok(())
}

fn check_bridge(config: &Config, result: &CniResult, host: &mut dyn Host) -> Result<Link, Error> {
    verify::require_on_host(result, &config.bridge)?;
    let bridge = verify::present(Ns::Host, &config.bridge, host)?;
    verify::kind(&bridge, "bridge")?;
    verify::up(Ns::Host, &bridge)?;
    if config.promisc && bridge.promiscuity == 0 {
        let text = format!("Bridge interface {} configured Promisc Mode true", bridge.name);
        return Err(fail!(CheckFailed, "{text} doesn't match current state: false"));
    }
    Ok(bridge)
}

fn check_container(config: &Config, ifname: &IfName, reported: &Interface, host: &mut dyn Host) -> Result<Link, Error> {
    let container = verify::present(Ns::Container, ifname, host)?;
    verify::kind(&container, "veth")?;
    verify::mac(&container, reported)?;
    if !config.leave_down {
        verify::up(Ns::Container, &container)?;
    }
    Ok(container)
}

fn check_gateways(config: &Config, result: &CniResult, bridge: &Link, host: &mut dyn Host) -> Result<(), Error> {
    if config.gateway == HostGateway::None {
        return Ok(());
    }
    let index = match &config.vlans.gateway {
        Some(link) => check_vlan_link(&link.name, host)?.index,
        None => bridge.index,
    };
    let found = host.addresses(Ns::Host, Some(index), None)?;
    for gateway in result.ips.iter().filter_map(|ip| ip.gateway) {
        if !found.iter().any(|address| address.cidr.address() == gateway) {
            let bridge = config.gateway_link();
            return Err(fail!(CheckFailed, "Failed to match gateway addr {gateway} on bridge {bridge}"));
        }
    }
    Ok(())
}

fn check_vlan_link(name: &IfName, host: &mut dyn Host) -> Result<Link, Error> {
    let link = verify::present(Ns::Host, name, host)?;
    verify::up(Ns::Host, &link)?;
    Ok(link)
}

fn check_spoof(at: &Attachment, port: &Link, container: &Link, host: &mut dyn Host) -> Result<(), Error> {
    let veth = IfName::parse(&port.name)?;
    let Some(mac) = &container.mac else { return Ok(()) };
    let names = CheckNames::find(at, host)?;
    match Ruleset::from(spoof::ensure(&names, &veth, mac)).missing(host.netfilter(Ns::Host)?)? {
        Some(rule) => Err(fail!(CheckFailed, "MAC spoof check of the container not found: {rule}")),
        None => Ok(()),
    }
}
