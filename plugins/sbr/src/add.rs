//! ADD: a table and a rule for each address.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::tables;
use cni_model::plan::Plan;
use cni_plugin::journal::Journal;
use cni_plugin::json_record::JsonRecord as _;

use crate::addresses::OwnAddress;
use crate::config::Config;
use crate::facts::Facts;
use crate::interface_routing::InterfaceRouting;
use crate::record::RoutingRecord;
use crate::{addresses, interface_routing, record};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let Config { table, gateways, add_source_hints } = Config::load(request)?;
    let result = addresses::prev_result(request)?;
    let at = request.attachment()?;
    let own = addresses::own_addresses(&result, &at.ifname, &gateways)?;
    let host = journal.host();
    host.enter(request.netns().unwrap_or_default())?;
    tables::lock(request, host)?;
    let facts = match table {
        Some(_) => Facts::of_rules(host)?,
        None => Facts::observe(&at.ifname, host)?,
    };
    let earlier = match record::earlier(&at, host)? {
        Some(record) => record,
        None => RoutingRecord::of_rules(interface_routing::own_rules(&own_sources(&own), table, &facts.rules)),
    };
    let routing = match table {
        Some(table) => InterfaceRouting::to_table(table, &own, &facts),
        None if add_source_hints => InterfaceRouting::with_hints(&own, facts, &earlier.rules),
        None => InterfaceRouting::choose(&own, &facts, &earlier.rules),
    };
    let mut plan = Plan::default();
    plan.owned(earlier.with(&routing, &at, host)?.write(&at));
    journal.apply(&plan)?;
    journal.apply(&routing.plan())?;
    Ok(result)
}

fn own_sources(own: &[OwnAddress]) -> BTreeSet<IpAddr> {
    own.iter().map(|address| address.cidr.address()).collect()
}
