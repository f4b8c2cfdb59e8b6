//! What the IPAM plugin's answer comes to: gateways, the default route, and a next hop for every route.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, ip_offset};
use cni_core::family::Family;
use cni_core::result::{CniResult, Route};

use super::error::PlanError;
use crate::config::{Config, Gateway};

/// Addresses and routes for the container, gateways decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// What the result tells.
    pub result: CniResult,
    /// The gateway addresses that the bridge must have.
    pub gateways: Vec<Cidr>,
    /// The routes to install, next hops decided.
    pub routes: Vec<Route>,
}

impl Network {
    /// Whether the host is to route IPv6 for the containers.
    pub fn has_ipv6_gateway(&self) -> bool {
        self.gateways.iter().any(|gateway| gateway.family() == Family::V6)
    }
}

/// Decides on the gateways: of each address, of the default route, and of every route that names none.
///
/// # Errors
/// [`PlanError::NoAddress`] or [`PlanError::NoGateway`].
pub fn network(config: &Config, ipam: CniResult) -> Result<Network, PlanError> {
    let CniResult { interfaces: _, mut ips, mut routes, dns } = ipam;
    if ips.is_empty() {
        return Err(PlanError::NoAddress);
    }
    let mut gateways = Vec::new();
    for ip in &mut ips {
        ip.interface = Some(2);
        if config.gateway == Gateway::None {
            continue;
        }
        let gateway = ip.gateway.map_or_else(|| first_address(ip.address), Ok)?;
        ip.gateway = Some(gateway);
        gateways.push(Cidr::truncated(gateway, ip.address.prefix()));
        let family = ip.address.family();
        let has_default = routes.iter().any(|route| route.is_default() && route.family() == family);
        if config.gateway == Gateway::DefaultRoute && !has_default {
            routes.push(Route::via(family.default_route(), gateway));
        }
    }
    gateways.sort_by_key(|gateway| gateway.family());
    gateways.dedup();
    let first_gateway = |family| ips.iter().filter_map(|ip| ip.gateway).find(|gateway| Family::of(*gateway) == family);
    let mut decided = Vec::new();
    for route in &routes {
        let on_link = route.scope == Some(SCOPE_LINK);
        let gw = route.gw.or_else(|| if on_link { None } else { first_gateway(route.family()) });
        let route = Route { gw, ..route.clone() };
        if !decided.contains(&route) {
            decided.push(checked(route)?);
        }
    }
    let dns = if config.dns.is_absent() { dns } else { config.dns.clone() };
    Ok(Network { result: CniResult { interfaces: Vec::new(), ips, routes, dns }, gateways, routes: decided })
}

/// `RT_SCOPE_LINK` of `linux/rtnetlink.h`: the destination is on the link, there is no next hop.
const SCOPE_LINK: i64 = 253;

fn first_address(address: Cidr) -> Result<IpAddr, PlanError> {
    let network = address.network();
    ip_offset(network.address(), 1).ok_or(PlanError::NoGateway { network })
}

/// The kernel's fields are 32 bits wide, the scope's 8.
fn checked(route: Route) -> Result<Route, PlanError> {
    let Route { dst, gw, mtu, advmss, priority, table, scope } = route;
    if let Some(gw) = gw.filter(|gw| Family::of(*gw) != dst.family()) {
        return Err(PlanError::RouteFamily { dst, gw });
    }
    let wide = i64::from(u32::MAX);
    let numbers = [
        ("mtu", Some(mtu), wide),
        ("advmss", Some(advmss), wide),
        ("priority", Some(priority), wide),
        ("table", table, wide),
        ("scope", scope, 255),
    ];
    for (key, value, most) in numbers {
        if let Some(value) = value.filter(|value| !(0..=most).contains(value)) {
            return Err(PlanError::RouteNumber { dst, key, value });
        }
    }
    Ok(route)
}
