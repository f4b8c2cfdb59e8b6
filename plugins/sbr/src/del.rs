//! DEL: removes the rules, and gives the main table its routes back. The interface goes next, as a rule; so routes that cannot
//! be given back are told to the log and keep nobody waiting.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_interface::tables;
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::plan::{Ns, Step};
use cni_plugin::removal::Removal;
use cni_plugin::routing::{FullRoute, SourceRule};

use crate::config;
use crate::facts::Facts;
use crate::lanes;
use crate::record::{self, RoutingRecord};

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    let mut removal = Removal::new(host);
    removal.attempt(|host| match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => end_routing(request, &at, host),
        Err(NetnsError::Gone { .. }) => Ok(()),
        Err(error @ NetnsError::Failed { .. }) => Err(error.into()),
    });
    removal.step(&Step::RemoveRecord { key: record::key(&at) });
    removal.finish()
}

fn end_routing(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    if let Err(error) = tables::lock(request, host) {
        log::warn!("DEL goes on without its lock: {}", error.in_full());
    }
    let record = record::earlier(at, host)?;
    let link = host.link(Ns::Container, &at.ifname)?.map(|link| link.index);
    let mut removal = Removal::new(host);
    if let (Some(record), Some(link)) = (&record, link) {
        removal.attempt(|host| {
            give_back(record, link, host);
            Ok(())
        });
    }
    let rules = removal.attempt(|host| rules_of(request, at, record.as_ref(), link, host)).unwrap_or_default();
    rules.into_iter().for_each(|rule| removal.step(&Step::RemoveRule { ns: Ns::Container, rule }));
    removal.finish()
}

/// The main table first, so that no packet is without a way.
fn give_back(record: &RoutingRecord, link: u32, host: &mut dyn Host) {
    let ns = Ns::Container;
    let is_here = |route: &&FullRoute| route.link == link;
    let back = record.moved.iter().filter(is_here).map(|route| Step::AddFullRoute { ns, route: route.clone() });
    let added = record.added.iter().rev().filter(is_here);
    let gone = added.map(|route| Step::RemoveFullRoute { ns, route: route.clone() });
    for step in back.chain(gone) {
        if let Err(error) = host.apply(&step) {
            log::warn!("could not be taken back: {step}: {}", error.in_full());
        }
    }
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
    let table = config::table(request).unwrap_or_else(|error| {
        log::warn!("rules to tables from {} on are removed: {}", lanes::FIRST, error.in_full());
        None
    });
    Ok(lanes::own_rules(&sources, table, &found))
}

fn sources(
    request: &Request,
    at: &Attachment,
    link: Option<u32>,
    host: &mut dyn Host,
) -> Result<BTreeSet<IpAddr>, Error> {
    let told = request.prev_result().ok().flatten().unwrap_or_default();
    let mut sources: BTreeSet<IpAddr> = told.ips_of(at.ifname.as_str()).map(|ip| ip.address.address()).collect();
    if let Some(link) = link {
        let found = host.addresses(Ns::Container, Some(link), None)?;
        sources.extend(found.iter().map(|address| address.cidr.address()));
    }
    Ok(sources)
}
