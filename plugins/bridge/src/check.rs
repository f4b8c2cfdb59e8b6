//! CHECK: whether everything that carries the container's traffic is as ADD made it. It writes nothing.
//!
//! What does not matter to traffic is not looked at: the MAC address of the host's end (udev may change
//! it), the promiscuity that a packet sniffer adds, routes and addresses beside ours.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::mac::MacError;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface, Route};
use cni_interface::network::HostGateway;
use cni_netfilter::nftables;
use cni_plugin::host::Host;
use cni_plugin::link::{KernelRoute, Link};
use cni_plugin::plan::Ns;
use cni_plugin::repair::{Lack, native};
use cni_plugin::vlan::PortVlans;

use crate::config::Config;
use crate::{repair, spoof};

/// What is missing or wrong.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The runtime did not tell the result of ADD.
    #[error("Required prevResult missing")]
    NoPrevResult,
    /// The result of ADD has no interface of this name.
    #[error("prevResult has no interface {name} {place}")]
    NotInResult {
        /// The name.
        name: String,
        /// Where it was looked for.
        place: String,
    },
    /// The result of ADD has no MAC address for an interface, or one that is none.
    #[error("invalid mac {mac:?} of interface {name} in prevResult")]
    ToldMac {
        /// The name.
        name: String,
        /// The address told.
        mac: String,
        /// What is wrong with it.
        #[source]
        source: MacError,
    },
    /// The result of ADD is of another namespace.
    #[error("Sandbox in prevResult {found} doesn't match configured netns: {netns}")]
    OtherSandbox {
        /// The sandbox told.
        found: String,
        /// `CNI_NETNS`.
        netns: String,
    },
    /// An interface is gone.
    #[error("Interface name {name} not found in the {ns} namespace")]
    Missing {
        /// Where.
        ns: Ns,
        /// Its name.
        name: String,
    },
    /// An interface is of another kind.
    #[error("Interface {name} does not have link type of {wanted}")]
    Kind {
        /// Its name.
        name: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// An interface is down.
    #[error("Interface {name} in the {ns} namespace is down")]
    Down {
        /// Where.
        ns: Ns,
        /// Its name.
        name: String,
    },
    /// The container's interface has another MAC address.
    #[error("Interface {name} Mac {told} doesn't match container Mac: {found}")]
    Mac {
        /// Its name.
        name: String,
        /// The address told.
        told: String,
        /// The address found.
        found: String,
    },
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
    /// An address is gone.
    #[error("Failed to match addr {address} on interface {name}")]
    Address {
        /// The address.
        address: Cidr,
        /// The interface.
        name: String,
    },
    /// The route to the container's own network is gone.
    #[error("Failed to find the route to {network} of address {address} for interface {name}")]
    ConnectedRoute {
        /// The network.
        network: Cidr,
        /// The address.
        address: Cidr,
        /// The interface.
        name: String,
    },
    /// A route is gone.
    #[error("Expected Route to {dst}{} not found in routing table {table}", gw.map_or_else(String::new, |gw| format!(" via {gw}")))]
    Route {
        /// The destination.
        dst: Cidr,
        /// The next hop.
        gw: Option<IpAddr>,
        /// The table.
        table: u32,
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
        vlan: u16,
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
            Self::NoPrevResult | Self::NotInResult { .. } | Self::ToldMac { .. } => Code::InvalidConfig,
            Self::OtherSandbox { .. }
            | Self::Missing { .. }
            | Self::Kind { .. }
            | Self::Down { .. }
            | Self::Mac { .. }
            | Self::NotPromisc { .. }
            | Self::NotAPort { .. }
            | Self::Address { .. }
            | Self::ConnectedRoute { .. }
            | Self::Route { .. }
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
    let result = request.prev_result()?.ok_or(CheckError::NoPrevResult)?;
    let at = request.attachment()?;
    let told = told_interface(&result, &at.ifname, request.netns().unwrap_or_default())?;
    let bridge = check_bridge(config, &result, host)?;
    let container = check_container(config, &at.ifname, told, host)?;
    let port = check_port(config, &at.ifname, &container, &bridge, host)?;
    check_port_vlans(config, &port, host)?;
    if config.spoof_check {
        check_spoof(&at, &port, &container, host)?;
    }
    check_addresses(&result, &container, host)?;
    for route in &result.routes {
        check_route(route, host)?;
    }
    check_gateways(config, &result, &bridge, host)?;
    if config.masquerade {
        check_masquerade(config, &at, &result, host)?;
    }
    Ok(())
}

/// The container's interface in the result.
pub(crate) fn told_interface<'a>(
    result: &'a CniResult,
    name: &IfName,
    netns: &str,
) -> Result<&'a Interface, CheckError> {
    let named = |interface: &&Interface| interface.name == name.as_str();
    let inside = || result.interfaces.iter().filter(named).filter(|interface| !interface.sandbox.is_empty());
    match (inside().rfind(|interface| interface.sandbox == netns), inside().next_back()) {
        (Some(interface), _) => Ok(interface),
        (None, Some(other)) => Err(CheckError::OtherSandbox { found: other.sandbox.clone(), netns: netns.to_owned() }),
        (None, None) => Err(CheckError::NotInResult { name: name.to_string(), place: format!("in {netns:?}") }),
    }
}

fn check_bridge(config: &Config, result: &CniResult, host: &mut dyn Host) -> Result<Link, Error> {
    let name = config.bridge.to_string();
    if !result.interfaces.iter().any(|told| told.name == name && told.sandbox.is_empty()) {
        return Err(CheckError::NotInResult { name, place: "on the host".to_owned() }.into());
    }
    let bridge = present(Ns::Host, &config.bridge, host)?;
    if bridge.kind.as_deref() != Some("bridge") {
        return Err(CheckError::Kind { name, wanted: "bridge" }.into());
    }
    if !bridge.up {
        return Err(CheckError::Down { ns: Ns::Host, name }.into());
    }
    if config.promisc && bridge.promiscuity == 0 {
        return Err(CheckError::NotPromisc { bridge: name }.into());
    }
    Ok(bridge)
}

fn check_container(config: &Config, ifname: &IfName, told: &Interface, host: &mut dyn Host) -> Result<Link, Error> {
    let container = present(Ns::Container, ifname, host)?;
    let name = ifname.to_string();
    if container.kind.as_deref() != Some("veth") {
        return Err(CheckError::Kind { name, wanted: "veth" }.into());
    }
    let found = container.mac.as_ref().map(ToString::to_string).unwrap_or_default();
    if !told.mac.is_empty() && !told.mac.eq_ignore_ascii_case(&found) {
        return Err(CheckError::Mac { name, told: told.mac.clone(), found }.into());
    }
    if !container.up && !config.leave_down {
        return Err(CheckError::Down { ns: Ns::Container, name }.into());
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
    if port.up { Ok(port) } else { Err(CheckError::Down { ns: Ns::Host, name: port.name }.into()) }
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

/// `RT_TABLE_MAIN` of `linux/rtnetlink.h`.
const MAIN: u32 = 254;

fn check_addresses(result: &CniResult, container: &Link, host: &mut dyn Host) -> Result<(), Error> {
    let found = host.addresses(Ns::Container, Some(container.index), None)?;
    for ip in result.ips_of(&container.name) {
        let (address, name) = (ip.address, container.name.clone());
        if !found.iter().any(|found| found.cidr == address) {
            return Err(CheckError::Address { address, name }.into());
        }
        let network = address.network();
        let is_connected = |route: &KernelRoute| route.dst == network && route.link == Some(container.index);
        let single = address.prefix() == address.family().bits();
        if !single && !host.routes(Ns::Container, address.family(), Some(MAIN))?.iter().any(is_connected) {
            return Err(CheckError::ConnectedRoute { network, address, name }.into());
        }
    }
    Ok(())
}

/// As the reference, a default route may have been given another next hop.
fn check_route(route: &Route, host: &mut dyn Host) -> Result<(), Error> {
    let table = route.table.and_then(|table| u32::try_from(table).ok()).filter(|table| *table != 0).unwrap_or(MAIN);
    let (dst, gw) = (route.dst, route.gw);
    let leads = |found: &KernelRoute| {
        found.dst == dst && gw.is_none_or(|gw| route.is_default() || found.gateways.contains(&gw))
    };
    if host.routes(Ns::Container, route.family(), Some(table))?.iter().any(leads) {
        Ok(())
    } else {
        Err(CheckError::Route { dst, gw, table }.into())
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
    let link = present(Ns::Host, name, host)?;
    if link.up { Ok(link) } else { Err(CheckError::Down { ns: Ns::Host, name: link.name }.into()) }
}

fn check_spoof(at: &Attachment, port: &Link, container: &Link, host: &mut dyn Host) -> Result<(), Error> {
    let veth = IfName::parse(&port.name)?;
    let Some(mac) = &container.mac else { return Ok(()) };
    match nftables::missing(host.nftables(), &spoof::ensure(at, &veth, mac))? {
        Some(rule) => Err(CheckError::SpoofCheck { rule: native(rule) }.into()),
        None => Ok(()),
    }
}

fn check_masquerade(config: &Config, at: &Attachment, result: &CniResult, host: &mut dyn Host) -> Result<(), Error> {
    match repair::masquerade_lacks(config, at, result, host)?.into_iter().next() {
        Some(Lack { missing: rule, plan: _ }) => Err(CheckError::Masquerade { rule }.into()),
        None => Ok(()),
    }
}

/// A link that must be there.
pub(crate) fn present(ns: Ns, name: &IfName, host: &mut dyn Host) -> Result<Link, Error> {
    host.link(ns, name)?.ok_or_else(|| CheckError::Missing { ns, name: name.to_string() }.into())
}
