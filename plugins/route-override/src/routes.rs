//! The routes that the interface has.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::result::Route;
use cni_interface::routes;
use cni_model::plan::Ns;
use cni_model::routing::{FullRoute, MAIN_TABLE};
use cni_plugin::host::Host;

use crate::error::RouteError;

/// The index of the interface, and its routes of both families in the main table and in those of these routes.
pub fn observe(ifname: &IfName, wanted: &[Route], host: &mut dyn Host) -> Result<(u32, Vec<FullRoute>), Error> {
    let no_link = || RouteError::NoLink { ifname: ifname.to_string() };
    let link = host.link(Ns::Container, ifname)?.ok_or_else(no_link)?.index;
    let tables: BTreeSet<u32> = wanted.iter().map(table).chain([MAIN_TABLE]).collect();
    let mut found = Vec::new();
    for table in tables {
        found.extend(routes::of_link(link, table, host)?);
    }
    Ok((link, found))
}

/// Whether a route of the interface is the configured one.
pub fn is(route: &FullRoute, wanted: &Route) -> bool {
    route.dst == wanted.dst.network()
        && route.table == table(wanted)
        && (wanted.gw.is_none() || route.gateway == wanted.gw)
        && (wanted.priority == 0 || i64::from(route.metric) == wanted.priority)
}

/// The table of a route. ADD refuses one that is no number of a table.
fn table(wanted: &Route) -> u32 {
    wanted.table.and_then(|table| u32::try_from(table).ok()).filter(|table| *table != 0).unwrap_or(MAIN_TABLE)
}
