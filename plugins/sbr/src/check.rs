//! CHECK: verifies that packets with a source address of the interface leave through it.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_model::routing::FullRoute;
use cni_plugin::host::Host;

use crate::addresses::{self, OwnAddress};
use crate::config;
use crate::error::SbrError;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let table = config::table(request)?;
    let result = addresses::prev_result(request)?;
    let ifname = request.attachment()?.ifname;
    let own = addresses::own_addresses(&result, &ifname)?;
    host.enter(request.netns().unwrap_or_default())?;
    own.iter().try_for_each(|address| verify(address, table, &ifname, host))
}

/// The routes of a table that the administrator has named are his.
fn verify(address: &OwnAddress, wanted: Option<u32>, ifname: &IfName, host: &mut dyn Host) -> Result<(), Error> {
    let family = address.cidr.family();
    let rules = host.routing().rules(Ns::Container, family)?.into_iter().filter_map(|rule| rule.by_source);
    let mut own = rules.filter(|rule| rule.source == address.source());
    let found = own.find(|rule| wanted.is_none_or(|table| rule.table == table));
    let (source_address, ifname) = (address.cidr.address(), ifname.to_string());
    let table = found.ok_or(SbrError::NoRule { source_address, ifname })?.table;
    let Some(gateway) = address.gateway.filter(|_| wanted.is_none()) else { return Ok(()) };
    let is_default = |route: &FullRoute| route.dst == family.default_route() && route.gateway == Some(gateway);
    let routes = host.routing().full_routes(Ns::Container, family, table)?;
    if routes.iter().any(is_default) { Ok(()) } else { Err(SbrError::NoDefault { gateway, table }.into()) }
}
