//! DEL: removes the rules, and restores the routes of the main table. The record of ADD is removed when all of it is
//! done, since the next DEL needs it otherwise. Usually the runtime removes the interface next, so a route that the
//! kernel no longer accepts does not fail DEL.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_interface::tables;
use cni_model::plan::{Ns, Step};
use cni_model::routing::{FullRoute, MAIN_TABLE, SourceRule};
use cni_plugin::host::Host;
use cni_plugin::json_record::JsonRecord as _;
use cni_plugin::removal::Removal;

use crate::config::Config;
use crate::facts::Facts;
use crate::interface_routing;
use crate::record::{self, RoutingRecord};

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    if host.enter_if_exists(request.netns().unwrap_or_default())? {
        end_routing(request, &at, host)?;
    }
    host.apply(&RoutingRecord::remove(&at)).map(|_| ())
}

fn end_routing(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    if let Err(error) = tables::lock(request, host) {
        log::warn!("DEL goes on without its lock: {}", error.in_full());
    }
    let record = record::earlier(at, host)?;
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
        return Ok(found.iter().filter_map(|rule| rule.by_source).filter(is_recorded).collect());
    }
    let sources = sources(request, at, link, host)?;
    let table = Config::load(request).map(|config| config.table).unwrap_or_else(|error| {
        log::warn!("rules to tables from {} on are removed: {}", interface_routing::FIRST, error.in_full());
        None
    });
    Ok(interface_routing::own_rules(&sources, table, &found))
}

fn sources(
    request: &Request,
    at: &Attachment,
    link: Option<u32>,
    host: &mut dyn Host,
) -> Result<BTreeSet<IpAddr>, Error> {
    let reported = request.prev_result().ok().flatten().unwrap_or_default();
    let mut sources: BTreeSet<IpAddr> = reported.ips_of(at.ifname.as_str()).map(|ip| ip.address.address()).collect();
    if let Some(link) = link {
        let found = host.addresses(Ns::Container, Some(link), None)?;
        sources.extend(found.iter().map(|address| address.cidr.address()));
    }
    Ok(sources)
}
