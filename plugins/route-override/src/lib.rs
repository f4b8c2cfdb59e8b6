//! The route-override plugin: removes and adds routes of the interface that an earlier plugin has made, and returns
//! the result with the new routes. DEL restores the former routes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Route};
use cni_core::valid::ValidAttachments;
use cni_interface::{tables, verify};
use cni_model::plan::{NewRoute, Ns, Plan, Step};
use cni_model::record::PartKind;
use cni_model::routing::{ADVMSS_METRIC, BY_KERNEL, FullRoute, LINK_SCOPE, MAIN_TABLE, MTU_METRIC};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::json_part::{JsonPart, is_of_entered};
use cni_plugin::ledger::ROUTES;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;
use serde::{Deserialize, Serialize};

/// The plugin.
pub struct RouteOverride;

impl Plugin for RouteOverride {
    fn kind(&self) -> &'static str {
        "route-override"
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(drop)
    }

    /// Removes and adds routes. It first records both, since nothing else tells DEL what to restore.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?;
        let result = request.prev_result()?.ok_or_else(|| {
            fail!(
                InvalidConfig,
                "Required prevResult missing: route-override must follow the plugin that makes the interface"
            )
        })?;
        let at = request.attachment()?;
        let wanted = config.added(&result, &at.ifname);
        let new = to_kernel(&wanted)?;
        let host = journal.host();
        host.enter(request.netns().unwrap_or_default())?;
        if config.is_empty() {
            return Ok(result);
        }
        tables::lock(request, host)?;
        let (link, found) = observe(&at.ifname, &new, host)?;
        let (removed, kept): (Vec<_>, Vec<_>) = found.into_iter().partition(|route| {
            // The kernel has one IPv6 route of a key.
            let is_replaced = new.iter().any(|wanted| is_same(route, &as_kernel_has_it(wanted, link)));
            !is_among(route, &new) && (config.removes(route) || is_replaced && may_remove(route))
        });
        let is_missing = |wanted: &NewRoute| !kept.iter().any(|route| is(route, wanted));
        let missing: Vec<NewRoute> = new.into_iter().filter(is_missing).collect();
        let added = missing.iter().map(|route| as_kernel_has_it(route, link));
        let record = RouteRecord::earlier(&at, host)?.with(&removed, added);
        let (mut plan, ns) = (Plan::default(), Ns::Container);
        plan.owned(record.write(&at));
        removed.into_iter().rev().for_each(|route| plan.owned(Step::RemoveFullRoute { ns, route }));
        missing.into_iter().for_each(|route| plan.owned(Step::AddRoute { ns, name: at.ifname.clone(), route }));
        journal.apply(&plan)?;
        Ok(config.applied_to(result, wanted))
    }

    /// Removes the routes that ADD added, and restores those that it removed, according to the record. Usually the runtime
    /// removes the interface next, so a route that the kernel no longer accepts does not fail DEL.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let at = request.attachment()?;
        if host.enter_if_exists(request.netns().unwrap_or_default())? {
            restore(request, &at, host)?;
        }
        host.apply(&RouteRecord::remove(&at)).map(drop)
    }

    /// Verifies that the removed routes are missing, and that the added ones exist.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        if config.skip_check {
            return Ok(());
        }
        let result = verify::prev_result(request)?;
        let ifname = request.attachment()?.ifname;
        host.enter(request.netns().unwrap_or_default())?;
        if config.is_empty() {
            return Ok(());
        }
        // ADD told the next hop of a route in the result, and may have removed the gateway it came from.
        let reported =
            |dst| result.routes.iter().rfind(|route: &&Route| route.dst.network() == dst).and_then(|route| route.gw);
        let mut wanted = config.added(&result, &ifname);
        let with_hop = wanted.iter_mut().filter(|route| !is_on_link(route.scope));
        with_hop.for_each(|route| route.gw = route.gw.or_else(|| reported(route.dst.network())));
        let wanted = to_kernel(&wanted)?;
        let (_, found) = observe(&ifname, &wanted, host)?;
        if let Some(NewRoute { dst, .. }) = wanted.iter().find(|wanted| !found.iter().any(|route| is(route, wanted))) {
            return Err(fail!(CheckFailed, "the route to {dst} on {ifname} is missing"));
        }
        match found.iter().find(|route| config.removes(route) && !is_among(route, &wanted)) {
            Some(FullRoute { dst, .. }) => Err(fail!(CheckFailed, "the route to {dst} on {ifname} is not removed")),
            None => Ok(()),
        }
    }

    fn status(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        self.examine(request)
    }

    /// Removes the records of attachments that are not valid. The kernel has deleted their routes with their interfaces.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let stale = RouteRecord::invalid(&request.network, valid, host)?;
        let mut removal = Removal::new(host);
        stale.iter().for_each(|(at, _)| removal.step(&RouteRecord::remove(at)));
        removal.finish()
    }
}

fn restore(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    let RouteRecord { removed, added, .. } = RouteRecord::earlier(at, host)?;
    if removed.is_empty() && added.is_empty() || host.link(Ns::Container, &at.ifname)?.is_none() {
        return Ok(());
    }
    tables::lock_or_warn(request, host);
    let (link, found) = observe(&at.ifname, &[], host)?;
    let (mut removal, ns) = (Removal::new(host), Ns::Container);
    let added = added.into_iter().rev().filter(|route| route.link == link);
    // The kernel holds more of a route than its key.
    let as_found = |route: FullRoute| found.iter().find(|found| is_same(found, &route)).cloned().unwrap_or(route);
    added.for_each(|route| removal.step(&Step::RemoveFullRoute { ns, route: as_found(route) }));
    let removed = removed.into_iter().filter(|route| route.link == link);
    removed.for_each(|route| removal.step(&Step::RestoreRoute { ns, route }));
    removal.finish()
}

/// The routes that are to be removed and added.
struct Config {
    flush_routes: bool,
    flush_gateway: bool,
    removed: Vec<Cidr>,
    added: Vec<Route>,
    /// Whether CHECK compares nothing.
    skip_check: bool,
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
    fn load(request: &Request) -> Result<Self, Error> {
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
    fn is_empty(&self) -> bool {
        !self.flush_routes && !self.flush_gateway && self.removed.is_empty() && self.added.is_empty()
    }

    /// Whether a route of the interface is removed. The routes that the kernel made for addresses stay.
    fn removes(&self, route: &FullRoute) -> bool {
        let is_default = route.dst == route.dst.family().default_route();
        let is_flushed =
            route.scope != LINK_SCOPE && (is_default || route.gateway.is_some() && !is_link_local(route.dst));
        let is_removed = is_flushed && self.flush_routes || is_default && self.flush_gateway;
        (is_removed || self.removed.contains(&route.dst)) && route.table == MAIN_TABLE && may_remove(route)
    }

    /// The routes that are to be added. One without a next hop gets the gateway of an address of its family, unless its destination is on
    /// the link: the kernel refuses a next hop then.
    fn added(&self, result: &CniResult, ifname: &IfName) -> Vec<Route> {
        let gateway = |route: &Route| {
            let mut own = result.ips_of(ifname.as_str()).filter(|ip| ip.address.family() == route.family());
            own.find_map(|ip| ip.gateway).filter(|_| !is_on_link(route.scope))
        };
        let with_gateway = |route: &Route| Route { gw: route.gw.or_else(|| gateway(route)), ..route.clone() };
        self.added.iter().map(with_gateway).collect()
    }

    /// The result with the routes as they are now.
    fn applied_to(&self, mut result: CniResult, added: Vec<Route>) -> CniResult {
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
const fn may_remove(route: &FullRoute) -> bool {
    route.protocol != BY_KERNEL && !route.is_one_of_several
}

fn is_link_local(dst: Cidr) -> bool {
    match dst.address() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// The record of what ADD has changed, for DEL. Without the record DEL changes nothing, and the kernel deletes the
/// routes with the interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RouteRecord {
    /// The namespace, if the kernel can identify it: a container may come again in a new one.
    namespace: Option<String>,
    removed: Vec<FullRoute>,
    added: Vec<FullRoute>,
}

impl JsonPart for RouteRecord {
    const KIND: PartKind = ROUTES;
}

impl RouteRecord {
    /// The record of an earlier ADD in the entered namespace; empty if there was none. An unusable record counts as
    /// missing.
    fn earlier(at: &Attachment, host: &mut dyn Host) -> Result<Self, Error> {
        let namespace = host.namespaces().identity(Ns::Container)?;
        let earlier = match Self::read(at, host)? {
            Some(earlier) if is_of_entered(earlier.namespace.as_deref(), host)? => earlier,
            Some(_) | None => Self::default(),
        };
        Ok(Self { namespace, ..earlier })
    }

    /// The record with what another ADD is about to change.
    fn with(mut self, removed: &[FullRoute], added: impl Iterator<Item = FullRoute>) -> Self {
        // A route that an earlier ADD added is not one to restore.
        let own = self.added.clone();
        self.removed.extend(removed.iter().filter(|route| !own.iter().any(|own| is_same(own, route))).cloned());
        // Networks come before the next hops that are in them.
        self.removed.sort_by_key(|route| route.gateway.is_some());
        self.added.extend(added);
        self
    }
}

/// Whether the kernel treats two routes as the same.
fn is_same(one: &FullRoute, other: &FullRoute) -> bool {
    (one.dst, one.gateway, one.table, one.metric) == (other.dst, other.gateway, other.table, other.metric)
}

/// A new route as the kernel holds it.
fn as_kernel_has_it(new: &NewRoute, link: u32) -> FullRoute {
    let like = FullRoute::default_by(new.dst.address(), link, new.table.unwrap_or(MAIN_TABLE));
    let metric = new.priority.unwrap_or(like.metric);
    FullRoute { dst: new.dst, gateway: new.gw, metric, scope: new.scope.unwrap_or_default(), ..like }
}

/// The index of the interface, and its routes of both families in the main table and in the tables of other routes.
fn observe(ifname: &IfName, others: &[NewRoute], host: &mut dyn Host) -> Result<(u32, Vec<FullRoute>), Error> {
    let no_link = || fail!(Kernel, "Cannot find network interface {ifname}: Link not found");
    let link = host.link(Ns::Container, ifname)?.ok_or_else(no_link)?.index;
    let tables: BTreeSet<u32> = others.iter().filter_map(|route| route.table).chain([MAIN_TABLE]).collect();
    let mut found = Vec::new();
    for table in tables {
        found.extend(tables::routes_of(link, table, host)?);
    }
    Ok((link, found))
}

/// Whether a route of the interface is the configured one. What the configuration leaves open may have any value.
fn is(route: &FullRoute, wanted: &NewRoute) -> bool {
    route.dst == wanted.dst
        && route.table == wanted.table.unwrap_or(MAIN_TABLE)
        && (wanted.gw.is_none() && !is_on_link(wanted.scope.map(i64::from)) || route.gateway == wanted.gw)
        && wanted.priority.is_none_or(|priority| route.metric == priority)
        && [(wanted.mtu, MTU_METRIC), (wanted.advmss, ADVMSS_METRIC)]
            .into_iter()
            .all(|(value, metric)| value.is_none() || route.metric_value(metric) == value)
}

fn is_among(route: &FullRoute, wanted: &[NewRoute]) -> bool {
    wanted.iter().any(|wanted| is(route, wanted))
}

/// Whether the destinations of a scope are on the link (253), or this host's (254): the kernel refuses a next hop then.
fn is_on_link(scope: Option<i64>) -> bool {
    scope.is_some_and(|scope| scope >= i64::from(LINK_SCOPE))
}

/// Configured routes as the kernel is asked for them.
///
/// # Errors
/// For a route that the kernel cannot hold.
fn to_kernel(routes: &[Route]) -> Result<Vec<NewRoute>, Error> {
    let unfit = |dst, error| fail!(InvalidConfig, "addroutes: route to {dst}", details: "{error}");
    routes.iter().map(|route| NewRoute::try_from(route).map_err(|error| unfit(route.dst, error))).collect()
}
