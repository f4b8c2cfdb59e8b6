//! Routes: those that steps have added, and those that come with an address.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_model::link::KernelRoute;
use cni_model::plan::NewRoute;
use cni_model::routing::MAIN_TABLE;

use super::kernel::{Kernel, KernelLink, Space};
use super::kernel_error::refuse;

impl Kernel {
    /// Adds a route by a link, which must be up, to a gateway that is on it.
    pub fn add_route(&mut self, space: &Space, name: &str, route: &NewRoute) -> Result<(), Error> {
        let entry = self.present(space, name)?;
        if !entry.link.up {
            return refuse(format!("link {name} is down"));
        }
        if entry.routes.contains(route) {
            return refuse("file exists");
        }
        let reachable = |gw: IpAddr| {
            let by_route = entry.routes.iter().any(|route| route.gw.is_none() && route.dst.contains(gw));
            by_route || connected(entry).any(|network| network.contains(gw))
        };
        if let Some(gw) = route.gw.filter(|gw| !route.onlink && !reachable(*gw)) {
            return refuse(format!("network is unreachable: {gw} is on no link"));
        }
        entry.routes.push(route.clone());
        Ok(())
    }

    /// Removes a route; returns whether it existed.
    pub fn remove_route(&mut self, space: &Space, name: &str, route: &NewRoute) -> bool {
        let Some(entry) = self.find_mut(space, name) else { return false };
        let before = entry.routes.len();
        entry.routes.retain(|have| have != route);
        entry.routes.len() < before
    }

    /// Removes the route that came with an address; a missing one is success.
    pub fn remove_connected_route(&mut self, space: &Space, name: &str, dst: Cidr) {
        if let Some(entry) = self.find_mut(space, name) {
            entry.disconnected.push(dst);
        }
    }

    /// All routes of a namespace.
    pub fn routes(&self, space: &Space) -> Vec<KernelRoute> {
        let mut found = Vec::new();
        for entry in self.entries(space).filter(|entry| entry.link.up) {
            let links = vec![entry.link.index];
            found.extend(entry.routes.iter().map(|route| KernelRoute {
                dst: route.dst,
                gateways: route.gw.into_iter().collect(),
                links: links.clone(),
                table: route.table.unwrap_or(MAIN_TABLE),
                unicast: true,
            }));
            found.extend(connected(entry).map(|dst| KernelRoute {
                dst,
                gateways: Vec::new(),
                links: links.clone(),
                table: MAIN_TABLE,
                unicast: true,
            }));
        }
        found
    }

    /// The link by which the route to exactly an address leaves.
    pub fn exact_output(&self, space: &Space, address: IpAddr) -> Option<u32> {
        let mut routes = self.routes(space).into_iter();
        routes
            .find(|route| route.table == MAIN_TABLE && route.dst == Cidr::host(address))
            .and_then(|route| route.links.first().copied())
    }

    /// The link by which packets to an address leave: that of the longest prefix.
    pub fn output(&self, space: &Space, address: IpAddr) -> Option<u32> {
        let routes =
            self.routes(space).into_iter().filter(|route| route.table == MAIN_TABLE && route.dst.contains(address));
        routes.max_by_key(|route| route.dst.prefix()).and_then(|route| route.links.first().copied())
    }
}

/// The networks of a link's addresses whose routes were not removed.
fn connected(entry: &KernelLink) -> impl Iterator<Item = Cidr> {
    let networks = entry.addresses.iter().map(|address| address.cidr.network());
    networks.filter(|network| !entry.disconnected.contains(network))
}
