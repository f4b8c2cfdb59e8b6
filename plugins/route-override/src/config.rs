//! The keys of the route-override plugin. Those in `args.cni` override those at the top.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::{CniResult, Route};
use cni_model::routing::{BY_KERNEL, FullRoute, LINK_SCOPE, MAIN_TABLE};
use serde::Deserialize;

use crate::routes::is_on_link;

/// The routes that are to be removed and added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    flush_routes: bool,
    flush_gateway: bool,
    removed: Vec<Cidr>,
    added: Vec<Route>,
    /// Whether CHECK compares nothing.
    pub skip_check: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Keys {
    flushroutes: Option<bool>,
    flushgateway: Option<bool>,
    delroutes: Option<Vec<Route>>,
    addroutes: Option<Vec<Route>>,
    skipcheck: Option<bool>,
    args: Option<Box<RouteOverrideArgs>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RouteOverrideArgs {
    cni: Keys,
}

impl Config {
    /// Reads every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let mut top: Keys = request.decode()?;
        let args = top.args.take().unwrap_or_default().cni;
        let removed = args.delroutes.or(top.delroutes).unwrap_or_default();
        Ok(Self {
            flush_routes: args.flushroutes.or(top.flushroutes).unwrap_or_default(),
            flush_gateway: args.flushgateway.or(top.flushgateway).unwrap_or_default(),
            removed: removed.iter().map(|route| route.dst.network()).collect(),
            added: args.addroutes.or(top.addroutes).unwrap_or_default(),
            skip_check: args.skipcheck.or(top.skipcheck).unwrap_or_default(),
        })
    }

    /// Whether no route changes.
    pub fn is_empty(&self) -> bool {
        !self.flush_routes && !self.flush_gateway && self.removed.is_empty() && self.added.is_empty()
    }

    /// Whether a route of the interface is removed. The routes that the kernel made for addresses stay.
    pub fn removes(&self, route: &FullRoute) -> bool {
        let is_default = route.dst == route.dst.family().default_route();
        let is_flushed =
            route.scope != LINK_SCOPE && (is_default || route.gateway.is_some() && !is_link_local(route.dst));
        let is_removed = is_flushed && self.flush_routes || is_default && self.flush_gateway;
        (is_removed || self.removed.contains(&route.dst)) && route.table == MAIN_TABLE && may_remove(route)
    }

    /// The routes that are to be added. One without a next hop gets the gateway of an address of its family, unless its destination is on
    /// the link: the kernel refuses a next hop then.
    pub fn added(&self, result: &CniResult, ifname: &IfName) -> Vec<Route> {
        let gateway = |route: &Route| {
            let mut own = result.ips_of(ifname.as_str()).filter(|ip| ip.address.family() == route.family());
            own.find_map(|ip| ip.gateway)
        };
        let gateway = |route: &Route| if is_on_link(route.scope) { None } else { gateway(route) };
        let with_gateway = |route: &Route| Route { gw: route.gw.or_else(|| gateway(route)), ..route.clone() };
        self.added.iter().map(with_gateway).collect()
    }

    /// The result with the routes as they are now.
    pub fn applied_to(&self, mut result: CniResult, added: Vec<Route>) -> CniResult {
        let is_removed = |dst| self.flush_routes || self.removed.contains(&dst);
        result.routes.retain(|route| !(is_removed(route.dst.network()) || self.flush_gateway && route.is_default()));
        result.routes.extend(added);
        if self.flush_gateway {
            result.ips.iter_mut().for_each(|ip| ip.gateway = None);
        }
        result
    }
}

/// Whether a route can be removed and restored. The kernel cannot remove one next hop of several and restore it alone.
pub const fn may_remove(route: &FullRoute) -> bool {
    route.protocol != BY_KERNEL && !route.is_one_of_several
}

fn is_link_local(dst: Cidr) -> bool {
    match dst.address() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
