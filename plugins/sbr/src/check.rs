//! CHECK: verifies that packets with a source address of the interface leave through it.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_model::routing::{FullRoute, MAIN_TABLE, SourceRule};
use cni_plugin::host::Host;

use crate::addresses::{self, OwnAddress};
use crate::config::Config;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let Config { table, gateways, add_source_hints } = Config::load(request)?;
    let result = addresses::prev_result(request)?;
    let ifname = request.attachment()?.ifname;
    let own = addresses::own_addresses(&result, &ifname, &gateways)?;
    host.enter(request.netns().unwrap_or_default())?;
    own.iter().try_for_each(|address| {
        let table = verify(address, table, &ifname, host)?;
        table.filter(|_| add_source_hints).map_or(Ok(()), |table| verify_hint(address.cidr.network(), table, host))
    })
}

/// Returns the table of an address; `None` for one that the administrator has named, whose routes are his.
fn verify(
    address: &OwnAddress,
    wanted: Option<u32>,
    ifname: &IfName,
    host: &mut dyn Host,
) -> Result<Option<u32>, Error> {
    let family = address.cidr.family();
    let rules = host.routing().rules(Ns::Container, family)?.into_iter().filter_map(|rule| rule.by_source);
    let is_own = |rule: &SourceRule| rule.source == address.source() && wanted.is_none_or(|table| rule.table == table);
    let mut tables = rules.filter(is_own).map(|rule| rule.table).peekable();
    let Some(table) = tables.peek().copied() else {
        let from = address.cidr.address();
        return Err(fail!(CheckFailed, "Failed to find the rule from {from}: its packets do not leave by {ifname}"));
    };
    if wanted.is_some() {
        return Ok(None);
    }
    let Some(gateway) = address.gateway else { return Ok(Some(table)) };
    // A rule of the administrator may come before the plugin's; packets follow the first whose table has a default route.
    for table in tables {
        let routes = host.routing().full_routes(Ns::Container, family, table)?;
        let mut defaults = routes.iter().filter(|route| route.dst == family.default_route()).peekable();
        if defaults.peek().is_some() {
            let is_ours = defaults.any(|route| route.gateway == Some(gateway));
            return if is_ours { Ok(Some(table)) } else { Err(no_default(gateway, table)) };
        }
    }
    Err(no_default(gateway, table))
}

/// Packets find no way out of the table.
fn no_default(gateway: IpAddr, table: u32) -> Error {
    fail!(CheckFailed, "Failed to find the default route by {gateway} in table {table}")
}

/// Requires of the main table the route to a network that an address's table has, with a source address.
fn verify_hint(network: Cidr, table: u32, host: &mut dyn Host) -> Result<(), Error> {
    let mut routes = |table| host.routing().full_routes(Ns::Container, network.family(), table);
    let (of_table, of_main) = (routes(table)?, routes(MAIN_TABLE)?);
    let on_link = of_table.iter().find(|route| route.dst == network && route.gateway.is_none());
    let is_kept = |own: &FullRoute| {
        of_main.iter().any(|route| (route.dst, route.link) == (network, own.link) && route.source.is_some())
    };
    if on_link.is_none_or(is_kept) {
        return Ok(());
    }
    Err(fail!(CheckFailed, "Failed to find the route to {network} with a source address in the main table"))
}
