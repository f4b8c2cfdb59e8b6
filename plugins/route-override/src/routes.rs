//! The routes that the interface has.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_core::result::Route;
use cni_interface::routes;
use cni_model::plan::{NewRoute, Ns};
use cni_model::routing::{ADVMSS_METRIC, FullRoute, LINK_SCOPE, MAIN_TABLE, MTU_METRIC};
use cni_plugin::host::Host;

/// The index of the interface, and its routes of both families in the main table and in the tables of other routes.
pub fn observe(ifname: &IfName, others: &[NewRoute], host: &mut dyn Host) -> Result<(u32, Vec<FullRoute>), Error> {
    let no_link = || fail!(Kernel, "Cannot find network interface {ifname}: Link not found");
    let link = host.link(Ns::Container, ifname)?.ok_or_else(no_link)?.index;
    let tables: BTreeSet<u32> = others.iter().filter_map(|route| route.table).chain([MAIN_TABLE]).collect();
    let mut found = Vec::new();
    for table in tables {
        found.extend(routes::of_link(link, table, host)?);
    }
    Ok((link, found))
}

/// Whether a route of the interface is the configured one. What the configuration leaves open may have any value.
pub fn is(route: &FullRoute, wanted: &NewRoute) -> bool {
    route.dst == wanted.dst
        && route.table == wanted.table.unwrap_or(MAIN_TABLE)
        && (wanted.gw.is_none() && !is_on_link(wanted.scope.map(i64::from)) || route.gateway == wanted.gw)
        && wanted.priority.is_none_or(|priority| route.metric == priority)
        && [(wanted.mtu, MTU_METRIC), (wanted.advmss, ADVMSS_METRIC)]
            .into_iter()
            .all(|(value, metric)| value.is_none() || route.metric_value(metric) == value)
}

/// Whether the destinations of a scope are on the link (253), or this host's (254): the kernel refuses a next hop then.
pub fn is_on_link(scope: Option<i64>) -> bool {
    scope.is_some_and(|scope| scope >= i64::from(LINK_SCOPE))
}

/// Configured routes as the kernel is asked for them.
///
/// # Errors
/// For a route that the kernel cannot hold.
pub fn to_kernel(routes: &[Route]) -> Result<Vec<NewRoute>, Error> {
    let unfit = |dst, error| fail!(InvalidConfig, "addroutes: route to {dst}", details: "{error}");
    routes.iter().map(|route| NewRoute::try_from(route).map_err(|error| unfit(route.dst, error))).collect()
}
