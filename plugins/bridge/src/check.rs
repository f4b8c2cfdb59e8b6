//! CHECK: verifies that everything that carries the container's traffic is as ADD made it. It changes nothing.
//!
//! What does not matter to traffic is ignored: the MAC address of the host's end (udev may change it), promiscuous
//! mode that a packet sniffer has set, routes and addresses that ADD did not add.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::{Command, Request};
use cni_core::result::{CniResult, Interface};
use cni_interface::alias::LinkOwner;
use cni_interface::network::HostGateway;
use cni_interface::{ipam, masquerade, verify, veth};
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_netfilter::Ruleset;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;

use crate::config::Config;
use crate::spoof::{self, CheckNames};

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let netns = request.netns().unwrap_or_default();
    host.enter(netns)?;
    ipam::delegate(config.ipam.as_deref(), Command::Check, host)?;
    let result = verify::prev_result(request)?;
    let at = request.attachment()?;
    let reported = verify::interface_of_result(&result, &at.ifname, netns)?;
    let bridge = check_bridge(&config, &result, host)?;
    let container = check_container(&config, &at.ifname, reported, host)?;
    let port = find_port(&config, &at, &container, &bridge, host)?;
    check_port(&config, &port, host)?;
    if config.spoof_check {
        check_spoof(&at, &port, &container, host)?;
    }
    verify::addresses_and_routes(&result, &container, host)?;
    check_gateways(&config, &result, &bridge, host)?;
    if config.masquerade {
        masquerade::verify(config.masquerade_backend, &at, &result, host)?;
    }
    Ok(())
}

/// Finds the rules of an attachment that are not complete: those of the masquerade and of the MAC spoof check. It compares the
/// host with what ADD has made for the given result.
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
    let mut index = bridge.index;
    if let Some(link) = &config.vlans.gateway {
        let link = verify::present(Ns::Host, &link.name, host)?;
        verify::up(Ns::Host, &link)?;
        index = link.index;
    }
    let found = host.addresses(Ns::Host, Some(index), None)?;
    for gateway in result.ips.iter().filter_map(|ip| ip.gateway) {
        if !found.iter().any(|address| address.cidr.address() == gateway) {
            let bridge = config.gateway_link();
            return Err(fail!(CheckFailed, "Failed to match gateway addr {gateway} on bridge {bridge}"));
        }
    }
    Ok(())
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

/// Finds the host's end from the container's, under any name. A host's end whose alias names another attachment does
/// not count, whatever the container has done to its interfaces.
fn find_port(
    config: &Config,
    at: &Attachment,
    container: &Link,
    bridge: &Link,
    host: &mut dyn Host,
) -> Result<Link, Error> {
    let is_ours = |link: &Link| link.master == Some(bridge.index) && LinkOwner::of(link, at) != LinkOwner::Another;
    let port = veth::host_end(container, host)?.filter(is_ours);
    port.ok_or_else(|| {
        let (bridge, ifname) = (&config.bridge, &at.ifname);
        let text = format!("CNI veth created for bridge {bridge} was not found");
        fail!(CheckFailed, "{text}: the peer of {ifname} is not a port of {bridge}")
    })
}

/// Requires that the port is up, and in the configured VLANs.
fn check_port(config: &Config, port: &Link, host: &mut dyn Host) -> Result<(), Error> {
    verify::up(Ns::Host, port)?;
    let Some(want) = &config.vlans.port else { return Ok(()) };
    match want.first_missing(&host.devices().port_vlans(Ns::Host, port.index)?) {
        Some(vlan) => {
            let port = &port.name;
            Err(fail!(CheckFailed, "VLAN {vlan} not found on interface {port}, where {want} are expected"))
        }
        None => Ok(()),
    }
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
    let port = find_port(config, at, &container, &bridge, host)?;
    let names = CheckNames::find(at, host)?;
    MissingPart::find(Ns::Host, spoof::ensure(&names, &IfName::parse(&port.name)?, &own), host)
}

/// The interface that ADD has recorded, which the container may have renamed.
fn recorded_link(at: &Attachment, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    let recorded = AttachmentRecord::find(at, host).and_then(|record| record.link);
    let Some(recorded) = recorded else { return Ok(None) };
    Ok(host.link_by_index(Ns::Container, recorded.index)?.filter(|link| recorded.may_be(link)))
}
