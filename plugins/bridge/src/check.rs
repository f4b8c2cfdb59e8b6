//! CHECK: whether everything that carries the container's traffic is as ADD made it. It writes nothing.
//!
//! What does not matter to traffic is not looked at: the MAC address of the host's end (udev may change
//! it), the promiscuity that a packet sniffer adds, routes and addresses beside ours.

use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure};
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface};
use cni_interface::network::HostGateway;
use cni_interface::{masquerade, verify};
use cni_netfilter::Ruleset;
use cni_plugin::host::Host;
use cni_plugin::link::Link;
use cni_plugin::missing::MissingPart;
use cni_plugin::plan::Ns;
use cni_plugin::vlan::{PortVlans, VlanId};

use crate::config::Config;
use crate::spoof;

/// What of a bridge is missing or wrong.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The bridge does not receive every frame.
    #[error("Bridge interface {bridge} configured Promisc Mode true doesn't match current state: false")]
    NotPromisc {
        /// The bridge.
        bridge: String,
    },
    /// The host's end is gone, or is no port of the bridge.
    #[error("CNI veth created for bridge {bridge} was not found: the peer of {ifname} is no port of {bridge}")]
    NotAPort {
        /// The bridge.
        bridge: String,
        /// The name inside the container.
        ifname: String,
    },
    /// The bridge has lost the gateway's address.
    #[error("Failed to match gateway addr {gateway} on bridge {bridge}")]
    GatewayAddress {
        /// The address.
        gateway: IpAddr,
        /// The bridge.
        bridge: String,
    },
    /// The port does not take part in a VLAN as it should.
    #[error("VLAN {vlan} not found on interface {port}, where {want} are expected")]
    PortVlan {
        /// The first one.
        vlan: VlanId,
        /// The port.
        port: String,
        /// All of the configuration.
        want: PortVlans,
    },
    /// The MAC spoof check is not complete.
    #[error("MAC spoof check of the container not found: {rule}")]
    SpoofCheck {
        /// The rule.
        rule: String,
    },
    /// The masquerade is not complete.
    #[error("masquerade rule of the container not found: {rule}")]
    Masquerade {
        /// The rule.
        rule: String,
    },
}

impl Failure for CheckError {
    fn code(&self) -> Code {
        match self {
            Self::NotPromisc { .. }
            | Self::NotAPort { .. }
            | Self::GatewayAddress { .. }
            | Self::PortVlan { .. }
            | Self::SpoofCheck { .. }
            | Self::Masquerade { .. } => Code::CheckFailed,
        }
    }
}

/// Compares the machine with the result of ADD.
///
/// # Errors
/// [`CheckError`] for the first thing that is missing.
pub fn check(config: &Config, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let result = verify::prev_result(request)?;
    let at = request.attachment()?;
    let told = verify::told_interface(&result, &at.ifname, request.netns().unwrap_or_default())?;
    let bridge = check_bridge(config, &result, host)?;
    let container = check_container(config, &at.ifname, told, host)?;
    let port = check_port(config, &at.ifname, &container, &bridge, host)?;
    check_port_vlans(config, &port, host)?;
    if config.spoof_check {
        check_spoof(&at, &port, &container, host)?;
    }
    verify::addresses(&result, &container, host)?;
    for route in &result.routes {
        verify::route(route, host)?;
    }
    check_gateways(config, &result, &bridge, host)?;
    if config.masquerade {
        check_masquerade(config, &at, &result, host)?;
    }
    Ok(())
}

fn check_bridge(config: &Config, result: &CniResult, host: &mut dyn Host) -> Result<Link, Error> {
    verify::told_on_host(result, &config.bridge)?;
    let bridge = verify::present(Ns::Host, &config.bridge, host)?;
    verify::kind(&bridge, "bridge")?;
    verify::up(Ns::Host, &bridge)?;
    if config.promisc && bridge.promiscuity == 0 {
        return Err(CheckError::NotPromisc { bridge: bridge.name }.into());
    }
    Ok(bridge)
}

fn check_container(config: &Config, ifname: &IfName, told: &Interface, host: &mut dyn Host) -> Result<Link, Error> {
    let container = verify::present(Ns::Container, ifname, host)?;
    verify::kind(&container, "veth")?;
    verify::mac(&container, told)?;
    if !config.leave_down {
        verify::up(Ns::Container, &container)?;
    }
    Ok(container)
}

fn check_port(
    config: &Config,
    ifname: &IfName,
    container: &Link,
    bridge: &Link,
    host: &mut dyn Host,
) -> Result<Link, Error> {
    let port = find_port(config, ifname, container, bridge, host)?;
    verify::up(Ns::Host, &port)?;
    Ok(port)
}

/// The host's end is found from the container's, whatever it is called by now.
pub(crate) fn find_port(
    config: &Config,
    ifname: &IfName,
    container: &Link,
    bridge: &Link,
    host: &mut dyn Host,
) -> Result<Link, Error> {
    let peer = match container.peer {
        Some(index) => host.link_by_index(Ns::Host, index)?,
        None => None,
    };
    let is_peer = |link: &Link| link.kind.as_deref() == Some("veth") && link.peer == Some(container.index);
    let port = peer.filter(|link| is_peer(link) && link.master == Some(bridge.index));
    let (bridge, ifname) = (config.bridge.to_string(), ifname.to_string());
    Ok(port.ok_or(CheckError::NotAPort { bridge, ifname })?)
}

fn check_port_vlans(config: &Config, port: &Link, host: &mut dyn Host) -> Result<(), Error> {
    let Some(want) = &config.vlans.port else { return Ok(()) };
    match want.first_missing(&host.port_vlans(port.index)?) {
        Some(vlan) => Err(CheckError::PortVlan { vlan, port: port.name.clone(), want: want.clone() }.into()),
        None => Ok(()),
    }
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
            return Err(CheckError::GatewayAddress { gateway, bridge: config.gateway_link().to_string() }.into());
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
    match Ruleset::from(spoof::ensure(at, &veth, mac)).missing(host.netfilter(Ns::Host)?)? {
        Some(rule) => Err(CheckError::SpoofCheck { rule: rule.to_string() }.into()),
        None => Ok(()),
    }
}

fn check_masquerade(config: &Config, at: &Attachment, result: &CniResult, host: &mut dyn Host) -> Result<(), Error> {
    match masquerade::find_missing(config.masquerade_backend, at, result, host)?.into_iter().next() {
        Some(MissingPart { missing: rule, plan: _ }) => Err(CheckError::Masquerade { rule }.into()),
        None => Ok(()),
    }
}
