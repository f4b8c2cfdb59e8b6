//! The routes that the interface has.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::result::Route;
use cni_interface::routes;
use cni_model::plan::Ns;
use cni_model::routing::{FullRoute, MAIN_TABLE};
use cni_plugin::host::Host;

use crate::error::RouteError;

/// The index of the interface, and its routes of both families in the main table.
pub fn observe(ifname: &IfName, host: &mut dyn Host) -> Result<(u32, Vec<FullRoute>), Error> {
    let no_link = || RouteError::NoLink { ifname: ifname.to_string() };
    let link = host.link(Ns::Container, ifname)?.ok_or_else(no_link)?.index;
    Ok((link, routes::of_link(link, MAIN_TABLE, host)?))
}

/// Whether a route of the interface is the configured one.
pub fn is(route: &FullRoute, wanted: &Route) -> bool {
    route.dst == wanted.dst.network() && (wanted.gw.is_none() || route.gateway == wanted.gw)
}
