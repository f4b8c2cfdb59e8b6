//! The addresses of the interface in the result of the earlier plugins.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::{CniResult, IpConfig, Route};

/// An address of the interface, with the next hop of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// With the prefix length of its network.
    pub cidr: Cidr,
    /// The configured gateway, or that of the address, or that of the default route.
    pub gateway: Option<IpAddr>,
    /// Whether the gateway is configured, and so replaces others.
    pub is_configured: bool,
}

impl OwnAddress {
    /// The address with a full-length prefix, as in rules.
    pub fn source(&self) -> Cidr {
        Cidr::host(self.cidr.address())
    }
}

/// The result of the plugins before.
pub fn prev_result(request: &Request) -> Result<CniResult, Error> {
    request.prev_result()?.ok_or_else(|| fail!(InvalidConfig, "This plugin must be called as chained plugin"))
}

/// The addresses of an interface: those that name it, and those that name none.
pub fn own_addresses(result: &CniResult, ifname: &IfName, gateways: &[IpAddr]) -> Result<Vec<OwnAddress>, Error> {
    let mut own = Vec::new();
    for ip in &result.ips {
        if is_of(ip, result, ifname)? {
            let configured = gateways.iter().copied().find(|gateway| Family::of(*gateway) == ip.address.family());
            let gateway = configured.or(ip.gateway).or_else(|| default_gateway(result, ip));
            own.push(OwnAddress { cidr: ip.address, gateway, is_configured: configured.is_some() });
        }
    }
    if own.is_empty() {
        let details = "no address of prevResult belongs to the interface";
        return Err(fail!(InvalidConfig, "No IP addresses supplied on interface: {ifname}", details: "{details}"));
    }
    Ok(own)
}

fn is_of(ip: &IpConfig, result: &CniResult, ifname: &IfName) -> Result<bool, Error> {
    let Some(index) = ip.interface else { return Ok(true) };
    let found = usize::try_from(index).ok().and_then(|index| result.interfaces.get(index));
    let Some(found) = found else {
        let (address, count) = (ip.address, result.interfaces.len());
        let text = format!("address {address} of prevResult has the interface index {index}");
        return Err(fail!(InvalidConfig, "{text}, and there are {count} interfaces"));
    };
    Ok(found.name == ifname.as_str())
}

/// The gateway of the default route, if the IPAM plugin names the gateway only there.
fn default_gateway(result: &CniResult, ip: &IpConfig) -> Option<IpAddr> {
    let of_family = |route: &&Route| route.is_default() && route.family() == ip.address.family();
    result.routes.iter().filter(of_family).find_map(|route| route.gw)
}
