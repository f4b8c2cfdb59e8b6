//! The keys of the sbr plugin, and the addresses of the interface in the result of the earlier plugins.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, parse_ip};
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::{CniResult, IpConfig, Route};
use serde::Deserialize;

/// The checked configuration.
pub struct Config {
    /// The table of the administrator; `None` if the plugin chooses and fills one.
    pub table: Option<u32>,
    /// Gateways in place of those in `prevResult`, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// Whether routes on the link stay in the main table, with a source address.
    pub add_source_hints: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    table: Option<i64>,
    gateways: Vec<String>,
    add_source_hints: bool,
}

impl Config {
    /// Reads every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let Keys { table, gateways, add_source_hints } = request.decode()?;
        let checked = |table: i64| {
            let number = u32::try_from(table).ok().filter(|number| *number != 0);
            number.ok_or_else(|| fail!(InvalidConfig, "invalid table {table} (must be between 1 and 4294967295)"))
        };
        let gateways: Vec<IpAddr> = gateways.into_iter().map(gateway).collect::<Result<_, _>>()?;
        for family in Family::ALL {
            if gateways.iter().filter(|gateway| Family::of(**gateway) == family).count() > 1 {
                return Err(fail!(InvalidConfig, "gateways has more than one IP{family} address"));
            }
        }
        Ok(Self { table: table.map(checked).transpose()?, gateways, add_source_hints })
    }
}

fn gateway(text: String) -> Result<IpAddr, Error> {
    let found = parse_ip(&text).filter(|address| !address.is_unspecified() && !address.is_multicast());
    found.ok_or_else(|| {
        fail!(InvalidConfig, "invalid gateway {text:?} in gateways: it must be the IP address of a router")
    })
}

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
