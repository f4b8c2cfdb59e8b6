//! Routes of all tables, and policy routing rules.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_model::link::KernelRoute;
use cni_model::plan::{NewRoute, Ns};
use cni_model::routing::{
    ADVMSS_METRIC, BY_KERNEL, BY_PROGRAM, FullRoute, KernelRule, LINK_SCOPE, MAIN_TABLE, METRICS, MTU_METRIC,
    SourceRule,
};
use cni_plugin::routing::Routing;

use super::FakeHost;
use super::kernel::{Kernel, KernelLink, Space};
use super::kernel_error::refuse;

impl Kernel {
    /// The routes of a family in a table.
    pub fn full_routes(&self, space: &Space, family: Family, table: u32) -> Vec<FullRoute> {
        let up = self.entries(space).filter(|entry| entry.link.up);
        let all = up.flat_map(full_routes_of);
        all.filter(|route| route.dst.family() == family && route.table == table).collect()
    }

    /// Adds a route; returns whether it was missing.
    pub fn add_full_route(&mut self, space: &Space, route: &FullRoute) -> Result<bool, Error> {
        let Some(entry) = self.by_index_mut(space, route.link).filter(|entry| entry.link.up) else {
            return refuse(format!("link {} is down", route.link));
        };
        if full_routes_of(entry).any(|found| found == *route) {
            return Ok(false);
        }
        match connected_network(route).filter(|network| entry.disconnected.contains(network)) {
            Some(network) => entry.disconnected.retain(|gone| *gone != network),
            None if route.protocol == BY_PROGRAM && route.table == MAIN_TABLE => entry.routes.push(new_route(route)),
            None => entry.moved.push(route.clone()),
        }
        Ok(true)
    }

    /// Removes a route; returns whether it existed.
    pub fn remove_full_route(&mut self, space: &Space, route: &FullRoute) -> bool {
        let Some(entry) = self.by_index_mut(space, route.link) else { return false };
        let found = full_routes_of(entry).any(|found| found == *route);
        match connected_network(route) {
            _ if !found => {}
            Some(network) if !entry.moved.contains(route) => entry.disconnected.push(network),
            Some(_) | None => {
                entry.moved.retain(|moved| moved != route);
                let link = route.link;
                // The kernel finds a route by its key, whatever its metrics are.
                entry.routes.retain(|new| full(new, link) != *route);
            }
        }
        found
    }

    /// The rules, with the one for the main table last.
    pub fn rules(&self, space: &Space, family: Family) -> Vec<KernelRule> {
        let own = self.rules.iter().filter(|(of, rule)| of == space && rule.source.family() == family);
        let own = own.map(|(_, rule)| KernelRule { table: rule.table, by_source: Some(*rule) });
        own.chain([KernelRule { table: MAIN_TABLE, by_source: None }]).collect()
    }

    /// Adds a rule before all others.
    pub fn add_rule(&mut self, space: &Space, rule: SourceRule) {
        self.rules.insert(0, (space.clone(), rule));
    }

    /// Removes a rule.
    pub fn remove_rule(&mut self, space: &Space, rule: &SourceRule) {
        let is_it =
            |(of, found): &(Space, SourceRule)| of == space && (found.source, found.table) == (rule.source, rule.table);
        if let Some(at) = self.rules.iter().position(is_it) {
            self.rules.remove(at);
        }
    }
}

impl Routing for FakeHost {
    fn routes(&mut self, ns: Ns, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        let space = self.space(ns)?;
        let routes = self.kernel.routes(&space).into_iter();
        Ok(routes.filter(|route| route.dst.family() == family && table.is_none_or(|id| id == route.table)).collect())
    }

    fn full_routes(&mut self, ns: Ns, family: Family, table: u32) -> Result<Vec<FullRoute>, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.full_routes(&space, family, table))
    }

    fn rules(&mut self, ns: Ns, family: Family) -> Result<Vec<KernelRule>, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.rules(&space, family))
    }
}

fn full_routes_of(entry: &KernelLink) -> impl Iterator<Item = FullRoute> {
    let link = entry.link.index;
    let connected = entry.addresses.iter().filter(|address| !entry.disconnected.contains(&address.cidr.network()));
    let connected = connected.map(move |address| {
        let source = Some(address.cidr.address()).filter(|_| address.cidr.family() == Family::V4);
        let route =
            FullRoute { gateway: None, source, ..FullRoute::default_by(address.cidr.address(), link, MAIN_TABLE) };
        FullRoute { dst: address.cidr.network(), protocol: BY_KERNEL, scope: LINK_SCOPE, ..route }
    });
    let made = entry.routes.iter().map(move |route| full(route, link));
    connected.chain(made).chain(entry.moved.clone())
}

fn full(route: &NewRoute, link: u32) -> FullRoute {
    let NewRoute { dst, gw, source, table, priority, scope, mtu, advmss, onlink } = *route;
    let like = FullRoute::default_by(dst.address(), link, table.unwrap_or(MAIN_TABLE));
    let (metric, scope) = (priority.unwrap_or(like.metric), scope.unwrap_or_default());
    let metrics = [(MTU_METRIC, mtu), (ADVMSS_METRIC, advmss)].into_iter().filter_map(|(kind, value)| {
        Some([&8_u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value?.to_ne_bytes()].concat())
    });
    let metrics: Vec<u8> = metrics.flatten().collect();
    let attributes = if metrics.is_empty() { Vec::new() } else { vec![(METRICS, metrics)] };
    FullRoute { dst, gateway: gw, source, metric, scope, onlink, attributes, ..like }
}

fn new_route(route: &FullRoute) -> NewRoute {
    let like = FullRoute::default_by(route.dst.address(), route.link, route.table);
    NewRoute {
        gw: route.gateway,
        source: route.source,
        table: Some(route.table).filter(|table| *table != MAIN_TABLE),
        priority: Some(route.metric).filter(|metric| *metric != like.metric),
        scope: Some(route.scope).filter(|scope| *scope != 0),
        mtu: route.metric_value(MTU_METRIC),
        advmss: route.metric_value(ADVMSS_METRIC),
        onlink: route.onlink,
        ..NewRoute::to(route.dst)
    }
}

/// The network of a route that the kernel makes by itself.
fn connected_network(route: &FullRoute) -> Option<Cidr> {
    (route.protocol == BY_KERNEL && route.table == MAIN_TABLE).then_some(route.dst)
}
