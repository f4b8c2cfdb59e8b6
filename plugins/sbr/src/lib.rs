//! The sbr plugin (source based routing): packets with a source address of the interface leave through the interface.
//! Each address gets its own routing table, and a rule that selects it.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_interface::tables;
use cni_model::plan::{Ns, Plan, Step};
use cni_model::routing::{FullRoute, MAIN_TABLE, SourceRule};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::json_part::JsonPart as _;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use crate::config::{Config, OwnAddress, own_addresses, prev_result};
use crate::interface_routing::{FIRST, Facts, InterfaceRouting, RoutingRecord, own_rules};

mod config;
mod interface_routing;

/// The plugin.
pub struct Sbr;

impl Plugin for Sbr {
    fn kind(&self) -> &'static str {
        "sbr"
    }

    fn share(&self) -> Share {
        Share::Properties
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(|_| ())
    }

    /// Makes a table and a rule for each address.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let Config { table, gateways, add_source_hints } = Config::load(request)?;
        let result = prev_result(request)?;
        let at = request.attachment()?;
        let own = own_addresses(&result, &at.ifname, &gateways)?;
        let host = journal.host();
        host.enter(request.netns().unwrap_or_default())?;
        tables::lock(request, host)?;
        let facts = match table {
            Some(_) => Facts::of_rules(host)?,
            None => Facts::observe(&at.ifname, host)?,
        };
        let earlier = RoutingRecord::earlier(&at, host)?.unwrap_or_else(|| {
            let sources: Vec<Cidr> = own.iter().map(OwnAddress::source).collect();
            RoutingRecord::of_rules(own_rules(&sources, table, &facts.rules))
        });
        let routing = match table {
            Some(table) => InterfaceRouting::to_table(table, &own, &facts),
            None if add_source_hints => InterfaceRouting::with_hints(&own, facts, &earlier.rules),
            None => InterfaceRouting::choose(&own, &facts, &earlier.rules),
        };
        let record = earlier.with(&routing, host)?;
        journal.apply(&Plan::of_owned([record.write(&at)]))?;
        journal.apply(&routing.plan())?;
        Ok(result)
    }

    /// Removes the rules, and restores the routes of the main table. The record of ADD is removed when all of it is done,
    /// since the next DEL needs it otherwise. Usually the runtime removes the interface next, so a route that the kernel no
    /// longer accepts does not fail DEL.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let at = request.attachment()?;
        if host.enter_if_exists(request.netns().unwrap_or_default())? {
            end_routing(request, &at, host)?;
        }
        host.apply(&RoutingRecord::remove(&at)).map(|_| ())
    }

    /// Verifies that packets with a source address of the interface leave through it.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let Config { table, gateways, add_source_hints } = Config::load(request)?;
        let result = prev_result(request)?;
        let ifname = request.attachment()?.ifname;
        let own = own_addresses(&result, &ifname, &gateways)?;
        host.enter(request.netns().unwrap_or_default())?;
        own.iter().try_for_each(|address| {
            let table = verify(address, table, &ifname, host)?;
            table.filter(|_| add_source_hints).map_or(Ok(()), |table| verify_hint(address.cidr.network(), table, host))
        })
    }

    fn status(&self, request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
        self.examine(request)
    }

    /// Removes the records of attachments that are not valid. The kernel has deleted routes and rules with the containers.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let stale = RoutingRecord::invalid(&request.network, valid, host)?;
        let mut removal = Removal::new(host);
        stale.iter().for_each(|(at, _)| removal.step(&RoutingRecord::remove(at)));
        removal.finish()
    }
}

fn end_routing(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    tables::lock_or_warn(request, host);
    let record = RoutingRecord::earlier(at, host)?;
    let link = host.link(Ns::Container, &at.ifname)?.map(|link| link.index);
    let mut removal = Removal::new(host);
    if let (Some(record), Some(link)) = (&record, link) {
        restore(record, link).iter().for_each(|step| removal.step(step));
    }
    let rules = removal.attempt(|host| rules_of(request, at, record.as_ref(), link, host)).unwrap_or_default();
    rules.into_iter().for_each(|rule| removal.step(&Step::RemoveRule { ns: Ns::Container, rule }));
    removal.finish()
}

/// The steps that restore the main table, and then empty the others: every packet has a way at any time. In the main table the kernel takes
/// no IPv6 route beside that with a source address.
fn restore(record: &RoutingRecord, link: u32) -> Vec<Step> {
    let ns = Ns::Container;
    let is_here = |route: &&FullRoute| route.link == link;
    let back = record.moved.iter().filter(is_here).map(|route| Step::RestoreRoute { ns, route: route.clone() });
    let added = record.added.iter().rev().filter(is_here);
    let (hints, others): (Vec<_>, Vec<_>) = added.partition(|route| route.table == MAIN_TABLE);
    let remove = |route: &FullRoute| Step::RemoveFullRoute { ns, route: route.clone() };
    hints.into_iter().map(remove).chain(back).chain(others.into_iter().map(remove)).collect()
}

/// Those of the record, or else those that an ADD may have made that wrote nothing down, as the reference's.
fn rules_of(
    request: &Request,
    at: &Attachment,
    record: Option<&RoutingRecord>,
    link: Option<u32>,
    host: &mut dyn Host,
) -> Result<Vec<SourceRule>, Error> {
    let found = Facts::of_rules(host)?.rules;
    if let Some(record) = record {
        let is_recorded = |rule: &SourceRule| record.rules.contains(&(rule.source, rule.table));
        return Ok(found.into_iter().filter(is_recorded).collect());
    }
    let sources = sources(request, at, link, host)?;
    let table = Config::load(request).map(|config| config.table).unwrap_or_else(|error| {
        log::warn!("rules to tables from {} on are removed: {}", FIRST, error.in_full());
        None
    });
    Ok(own_rules(&sources, table, &found))
}

fn sources(request: &Request, at: &Attachment, link: Option<u32>, host: &mut dyn Host) -> Result<Vec<Cidr>, Error> {
    let reported = request.prev_result().ok().flatten().unwrap_or_default();
    let mut sources: Vec<Cidr> = reported.ips_of(at.ifname.as_str()).map(|ip| ip.address).collect();
    if let Some(link) = link {
        sources.extend(host.addresses(Ns::Container, Some(link), None)?.iter().map(|address| address.cidr));
    }
    Ok(sources.into_iter().map(|cidr| Cidr::host(cidr.address())).collect())
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
