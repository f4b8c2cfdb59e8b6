//! The result of ADD: derives gateways, the default route, and the next hop of every route from the IPAM plugin's result.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, ip_offset};
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::result::{CniResult, Dns, Interface, IpConfig, Route};
use cni_model::link::Link;
use cni_model::plan::NewRoute;
use cni_model::routing::LINK_SCOPE;

/// How the host serves as a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostGateway {
    /// The host is not a gateway; the gateways in the IPAM plugin's answer are kept.
    None,
    /// Every address gets a gateway: the first address of its network, unless the IPAM plugin names one.
    Address,
    /// As [`HostGateway::Address`], and each family without a default route gets one through the gateway.
    DefaultRoute,
}

/// Addresses and routes for the container, with their gateways.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedNetwork {
    /// The result of the IPAM plugin, with the gateways.
    pub result: CniResult,
    /// The gateway addresses that the host must have.
    pub gateways: Vec<Cidr>,
    /// The routes to add, with their next hops.
    pub routes: Vec<NewRoute>,
}

impl ResolvedNetwork {
    /// Determines the gateway of each address, of the default route, and of every route without one.
    /// `interface` is the index of the container's interface in the result. `dns` replaces the IPAM plugin's as a whole,
    /// unless it is absent.
    ///
    /// ```
    /// use cni_core::result::{CniResult, Dns, IpConfig};
    /// use cni_interface::network::{HostGateway, ResolvedNetwork};
    ///
    /// let ip = IpConfig { interface: None, address: "10.1.2.5/24".parse()?, gateway: None };
    /// let answer = CniResult { ips: vec![ip], ..CniResult::default() };
    /// let network = ResolvedNetwork::decide(answer, HostGateway::DefaultRoute, 1, &Dns::default()).expect("a network");
    /// assert_eq!(network.gateways, ["10.1.2.1/24".parse()?]);
    /// assert_eq!(network.routes[0].gw, Some("10.1.2.1".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If no interface can have such addresses or routes.
    pub fn decide(ipam: CniResult, gateway: HostGateway, interface: i64, dns: &Dns) -> Result<Self, Error> {
        let CniResult { interfaces: _, mut ips, mut routes, dns: ipam_dns } = ipam;
        if ips.is_empty() {
            return Err(fail!(InvalidConfig, "IPAM plugin returned missing IP config"));
        }
        ips.iter_mut().for_each(|ip| ip.interface = Some(interface));
        let gateways = if gateway == HostGateway::None { Vec::new() } else { host_gateways(&mut ips)? };
        if gateway == HostGateway::DefaultRoute {
            add_default_routes(&mut routes, &ips);
        }
        let decided = next_hops(&routes, &ips)?;
        let dns = if dns.is_absent() { ipam_dns } else { dns.clone() };
        Ok(Self { result: CniResult { interfaces: Vec::new(), ips, routes, dns }, gateways, routes: decided })
    }

    /// The addresses of the container's interface.
    pub fn addresses(&self) -> impl Iterator<Item = Cidr> {
        self.result.ips.iter().map(|ip| ip.address)
    }

    /// Whether the host routes IPv6 for the containers.
    pub fn has_ipv6_gateway(&self) -> bool {
        self.gateways.iter().any(|gateway| gateway.family() == Family::V6)
    }
}

/// Gives every address a gateway, and returns these with the prefix lengths of the networks.
fn host_gateways(ips: &mut [IpConfig]) -> Result<Vec<Cidr>, Error> {
    let mut gateways = Vec::new();
    for ip in ips {
        let gateway = ip.gateway.map_or_else(|| first_address(ip.address), Ok)?;
        ip.gateway = Some(gateway);
        gateways.push(Cidr::truncated(gateway, ip.address.prefix()));
    }
    gateways.sort_by_key(|gateway| gateway.family());
    gateways.dedup();
    Ok(gateways)
}

fn add_default_routes(routes: &mut Vec<Route>, ips: &[IpConfig]) {
    for ip in ips {
        let family = ip.address.family();
        let has_default = routes.iter().any(|route| route.is_default() && route.family() == family);
        if let Some(gateway) = ip.gateway.filter(|_| !has_default) {
            routes.push(Route::via(family.default_route(), gateway));
        }
    }
}

/// The routes to install: each once, by the first gateway of its family if it names none.
fn next_hops(routes: &[Route], ips: &[IpConfig]) -> Result<Vec<NewRoute>, Error> {
    let first_gateway = |family| ips.iter().filter_map(|ip| ip.gateway).find(|gateway| Family::of(*gateway) == family);
    let mut decided = Vec::new();
    for route in routes {
        let on_link = route.scope == Some(i64::from(LINK_SCOPE));
        let gw = route.gw.or_else(|| if on_link { None } else { first_gateway(route.family()) });
        let route = checked(&Route { gw, ..route.clone() })?;
        if !decided.contains(&route) {
            decided.push(route);
        }
    }
    Ok(decided)
}

fn first_address(address: Cidr) -> Result<IpAddr, Error> {
    let network = address.network();
    let none = || fail!(InvalidConfig, "{network} has no next address, which would be the gateway's");
    ip_offset(network.address(), 1).ok_or_else(none)
}

fn checked(route: &Route) -> Result<NewRoute, Error> {
    let dst = route.dst;
    if let Some(gw) = route.gw.filter(|gw| Family::of(*gw) != dst.family()) {
        return Err(fail!(InvalidConfig, "failed to add route to {dst}: its gateway {gw} is of another family"));
    }
    NewRoute::try_from(route).map_err(|problem| fail!(InvalidConfig, "failed to add route to {dst}: {problem}"))
}

/// The answer for a network without IPAM: name resolution, and no address.
pub fn layer_two(dns: &Dns) -> CniResult {
    CniResult { dns: dns.clone(), ..CniResult::default() }
}

/// A link as it is printed in the result: `sandbox` is `CNI_NETNS` as given, and empty for a link on the host.
pub fn described(link: &Link, sandbox: &str) -> Interface {
    Interface {
        name: link.name.clone(),
        mac: link.mac.as_ref().map(ToString::to_string).unwrap_or_default(),
        sandbox: sandbox.to_owned(),
        ..Interface::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipam(addresses: &[&str], routes: &[&str]) -> CniResult {
        let route = |dst: &&str| Route {
            dst: dst.parse().expect("CIDR"),
            gw: None,
            mtu: 0,
            advmss: 0,
            priority: 0,
            table: None,
            scope: None,
        };
        let ip = |address: &&str| IpConfig { interface: None, address: address.parse().expect("CIDR"), gateway: None };
        CniResult {
            ips: addresses.iter().map(ip).collect(),
            routes: routes.iter().map(route).collect(),
            ..CniResult::default()
        }
    }

    fn decide(ipam: CniResult, gateway: HostGateway) -> Result<ResolvedNetwork, Error> {
        ResolvedNetwork::decide(ipam, gateway, 1, &Dns::default())
    }

    #[test]
    fn the_default_gateway_adds_a_route_unless_ipam_gave_one() {
        let routes = |routes: &[&str]| {
            decide(ipam(&["10.1.2.5/24"], routes), HostGateway::DefaultRoute).expect("a network").routes
        };
        for given in [&[][..], &["0.0.0.0/0"], &["0.0.0.0/0", "0.0.0.0/0"]] {
            let routes = routes(given);
            assert_eq!(routes.len(), 1, "{given:?}");
            assert_eq!(routes[0].gw, Some(IpAddr::from([10, 1, 2, 1])));
        }
    }

    #[test]
    fn a_route_on_the_link_gets_no_gateway() {
        let mut ipam = ipam(&["10.1.2.5/24"], &["10.9.0.0/16"]);
        ipam.routes[0].scope = Some(253);
        assert_eq!(decide(ipam, HostGateway::Address).expect("a network").routes[0].gw, None);
    }

    #[test]
    fn what_ipam_cannot_mean_is_refused() {
        let refused = |ipam: CniResult| {
            let error = decide(ipam, HostGateway::Address).expect_err("refused");
            (error.code().number(), error.to_string())
        };
        assert_eq!(refused(CniResult::default()), (7, "IPAM plugin returned missing IP config".to_owned()));
        let no_next = "255.255.255.255/32 has no next address, which would be the gateway's".to_owned();
        assert_eq!(refused(ipam(&["255.255.255.255/32"], &[])), (7, no_next));
        let mut odd = ipam(&["10.1.2.5/24"], &["10.9.0.0/16"]);
        odd.routes[0].priority = -1;
        assert_eq!(refused(odd), (7, "failed to add route to 10.9.0.0/16: priority -1 is out of range".to_owned()));
    }

    #[test]
    fn without_a_gateway_on_the_host_those_that_ipam_tells_count_and_no_other() {
        let mut reported = ipam(&["10.1.2.5/24", "fd00::5/64"], &["0.0.0.0/0", "::/0"]);
        reported.ips[1].gateway = Some("fd00::9".parse().expect("address"));
        let network = decide(reported, HostGateway::None).expect("a network");
        let hops: Vec<_> = network.routes.iter().map(|route| route.gw.map(|gw| gw.to_string())).collect();
        assert_eq!(hops, [None, Some("fd00::9".to_owned())]);
        assert_eq!((network.gateways, network.result.ips[0].gateway), (Vec::new(), None));
        assert!(network.result.ips.iter().all(|ip| ip.interface == Some(1)));
        assert!(network.result.routes.iter().all(|route| route.gw.is_none()), "routes are told as IPAM told them");
    }

    #[test]
    fn name_resolution_is_the_configurations_as_a_whole_or_else_ipams() {
        let dns = |domain: &str| Dns { domain: domain.to_owned(), ..Dns::default() };
        let reported = || CniResult { dns: dns("ipam"), ..ipam(&["10.1.2.5/24"], &[]) };
        let empty = Dns { search: Some(Vec::new()), ..Dns::default() };
        for (own, want) in [(Dns::default(), dns("ipam")), (dns("own"), dns("own")), (empty.clone(), empty)] {
            assert_eq!(
                ResolvedNetwork::decide(reported(), HostGateway::None, 0, &own).expect("a network").result.dns,
                want
            );
        }
    }
}
