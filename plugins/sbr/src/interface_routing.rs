//! The routing table of each address: its number, its routes, and the routes that move there from the main table; and the
//! record of all that for DEL: nothing else tells which routes were in the main table.
//!
//! Without the record, as after an ADD of the reference, DEL removes only the rules, and the tables stay until the
//! interface is deleted.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::{Attachment, IfName};
use cni_interface::tables;
use cni_model::plan::{Ns, Plan, Step};
use cni_model::record::PartKind;
use cni_model::routing::{BY_PROGRAM, FullRoute, MAIN_TABLE, SourceRule};
use cni_plugin::host::Host;
use cni_plugin::json_part::{JsonPart, is_of_entered};
use cni_plugin::ledger::SOURCE_ROUTES;
use serde::{Deserialize, Serialize};

use crate::config::OwnAddress;

/// The first table that is tried.
pub const FIRST: u32 = 100;

/// The routes and rules of the container: everything that decides which tables are taken, and what they get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The index of the interface.
    link: u32,
    /// The rules by source, of both families.
    pub rules: Vec<SourceRule>,
    /// The interface's routes of the main table, of both families.
    routes: Vec<FullRoute>,
    /// The tables that are taken.
    tables: BTreeSet<u32>,
}

impl Facts {
    /// Asks only for the rules, in the entered namespace.
    pub fn of_rules(host: &mut dyn Host) -> Result<Self, Error> {
        let mut facts = Self::default();
        for family in Family::ALL {
            let rules = host.routing().rules(Ns::Container, family)?;
            facts.rules.extend(rules.iter().filter_map(|rule| rule.by_source));
        }
        Ok(facts)
    }

    /// Asks for all of them, in the namespace that was entered.
    pub fn observe(ifname: &IfName, host: &mut dyn Host) -> Result<Self, Error> {
        let no_link = || fail!(Kernel, "Cannot find network interface {ifname}: Link not found");
        let link = host.link(Ns::Container, ifname)?.ok_or_else(no_link)?.index;
        let routes = tables::routes_of(link, MAIN_TABLE, host)?;
        Ok(Self { link, routes, tables: tables::taken(host)?, ..Self::of_rules(host)? })
    }
}

/// The routing of packets with one source address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SourceRouting {
    /// The rule that leads to the table.
    rule: SourceRule,
    /// Whether the kernel has it already.
    has_rule: bool,
    /// The routes that the table gets.
    routes: Vec<FullRoute>,
}

/// The ways of all addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceRouting {
    /// One for each address.
    sources: Vec<SourceRouting>,
    /// The routes that leave the main table, since each is in a table of its own now.
    moved: Vec<FullRoute>,
    /// Routes of the main table with a source address, in place of moved ones.
    hinted: Vec<FullRoute>,
}

impl InterfaceRouting {
    /// Leads packets to a table that the administrator fills.
    pub fn to_table(table: u32, addresses: &[OwnAddress], facts: &Facts) -> Self {
        let source_routing = |address: &OwnAddress| {
            let rule = SourceRule { source: address.source(), table, priority: None };
            let has_rule = rules_from(address, facts).any(|found| found.table == table);
            SourceRouting { rule, has_rule, routes: Vec::new() }
        };
        Self { sources: addresses.iter().map(source_routing).collect(), ..Self::default() }
    }

    /// Chooses a table for each address, and copies the routes that are its own. `earlier` are the rules of an ADD before.
    pub fn choose(addresses: &[OwnAddress], facts: &Facts, earlier: &[(Cidr, u32)]) -> Self {
        let mut taken = facts.tables.clone();
        let mut routing = Self::default();
        for address in addresses {
            // A rule of the administrator from the same address may have come before it.
            let former = earlier.iter().find(|(source, _)| *source == address.source()).map(|(_, table)| *table);
            let is_own = |rule: &SourceRule| former.map_or(may_be_chosen(rule.table), |table| table == rule.table);
            let found = rules_from(address, facts).find(is_own);
            let table = found.map(|rule| rule.table).or(former).unwrap_or_else(|| tables::free(FIRST, &taken));
            taken.insert(table);
            let own: Vec<&FullRoute> = facts.routes.iter().filter(|route| belongs(route, address)).collect();
            let rule = SourceRule { source: address.source(), table, priority: None };
            routing.sources.push(SourceRouting {
                rule,
                has_rule: found.is_some(),
                routes: routes_of(table, address, &own, facts),
            });
            let moved = own.into_iter().filter(|route| !route.is_one_of_several);
            moved.for_each(|route| push_new(&mut routing.moved, route.clone()));
        }
        // In this order networks are restored before the next hops inside of them.
        routing.moved.sort_by_key(|route| route.gateway.is_some());
        routing
    }

    /// As [`InterfaceRouting::choose`], and keeps the routes on the link in the main table, each with a source address of the interface.
    pub fn with_hints(addresses: &[OwnAddress], mut facts: Facts, earlier: &[(Cidr, u32)]) -> Self {
        let mut former = Vec::new();
        for route in &mut facts.routes {
            if let Some(hinted) = with_source(route, addresses) {
                former.push(std::mem::replace(route, hinted));
            }
        }
        let mut routing = Self::choose(addresses, &facts, earlier);
        routing.moved.retain(|route| route.gateway.is_some());
        routing.moved.splice(..0, former.iter().cloned());
        routing.hinted = former.iter().filter_map(|route| with_source(route, addresses)).collect();
        routing
    }

    /// The routes that the tables get.
    fn added(&self) -> impl Iterator<Item = &FullRoute> {
        self.sources.iter().flat_map(|source| &source.routes)
    }

    /// Fills the tables before any packet is led there, and removes the routes from the main table last.
    pub fn plan(&self) -> Plan {
        let ns = Ns::Container;
        let add = |route: &FullRoute| Step::AddFullRoute { ns, route: route.clone() };
        let new = self.sources.iter().filter(|source| !source.has_rule);
        let rules = new.map(|source| Step::AddRule { ns, rule: source.rule });
        // In the other order, so that they are brought back in theirs.
        let moved = self.moved.iter().rev().map(|route| Step::RemoveFullRoute { ns, route: route.clone() });
        Plan::of_owned(self.added().map(add).chain(rules).chain(moved).chain(self.hinted.iter().map(add)))
    }
}

/// Adds an element to a list, unless it contains it.
fn push_new<T: PartialEq>(list: &mut Vec<T>, new: T) {
    if !list.contains(&new) {
        list.push(new);
    }
}

/// The rules that count as the plugin's own without a record: those from one of these addresses to the configured
/// table, or else to one that ADD may choose.
pub fn own_rules(sources: &[Cidr], table: Option<u32>, rules: &[SourceRule]) -> Vec<SourceRule> {
    let is_wanted = |rule: &SourceRule| table.map_or_else(|| may_be_chosen(rule.table), |table| rule.table == table);
    rules.iter().copied().filter(|rule| sources.contains(&rule.source) && is_wanted(rule)).collect()
}

fn may_be_chosen(table: u32) -> bool {
    table >= FIRST && !tables::RESERVED.contains(&table)
}

fn rules_from(address: &OwnAddress, facts: &Facts) -> impl Iterator<Item = SourceRule> {
    let source = address.source();
    facts.rules.iter().copied().filter(move |rule| rule.source == source)
}

/// Whether a route of the interface is for the packets of an address: it leads into its network, or has the address as
/// its source.
fn belongs(route: &FullRoute, address: &OwnAddress) -> bool {
    let network = address.cidr.network();
    if route.dst.family() != network.family() || is_of_the_link(route.dst.address()) {
        return false;
    }
    let from_network = route.source.is_some_and(|source| network.contains(source));
    let by_network = route.gateway.is_some_and(|gateway| {
        network.contains(gateway) || is_of_the_link(gateway) || address.gateway == Some(gateway)
    });
    from_network || by_network || (route.source.is_none() && route.gateway.is_none())
}

/// Whether an IPv6 address is a link-local or multicast address.
fn is_of_the_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
    }
}

/// A route on the link with a source: the address whose network it leads to, or else the first of the family. `None` if it has one, or is
/// for link-local addresses.
fn with_source(route: &FullRoute, addresses: &[OwnAddress]) -> Option<FullRoute> {
    if route.gateway.or(route.source).is_some() || route.is_one_of_several || is_of_the_link(route.dst.address()) {
        return None;
    }
    let of_family = |cidr: &Cidr| cidr.family() == route.dst.family();
    let mut own = addresses.iter().map(|address| address.cidr).filter(of_family);
    let source = own.clone().find(|cidr| cidr.contains(route.dst.address())).or_else(|| own.next())?;
    Some(FullRoute { source: Some(source.address()), protocol: BY_PROGRAM, ..route.clone() })
}

/// The routes of a table. Networks come before the routes whose next hop is in them.
fn routes_of(table: u32, address: &OwnAddress, own: &[&FullRoute], facts: &Facts) -> Vec<FullRoute> {
    let (by_hop, on_link): (Vec<&FullRoute>, Vec<&FullRoute>) = own.iter().partition(|route| route.gateway.is_some());
    let mut routes = Vec::new();
    let is_replaced =
        |route: &&FullRoute| address.is_configured && route.dst.prefix() == 0 && route.gateway != address.gateway;
    let own = on_link.into_iter().chain(by_hop).filter(|route| !is_replaced(route));
    let copies = own.map(|route| route.in_table(table));
    copies.for_each(|route| push_new(&mut routes, route));
    if let Some(gateway) = address.gateway {
        let default = FullRoute::default_by(gateway, facts.link, table);
        let key = |route: &FullRoute| (route.dst, route.gateway, route.metric);
        let is_there = |route: &FullRoute| key(route) == key(&default);
        if !routes.iter().any(is_there) {
            routes.push(default);
        }
    }
    routes
}

/// The routes and rules of one attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RoutingRecord {
    /// The namespace, if the kernel can identify it: a container may come again in a new one.
    namespace: Option<String>,
    /// The rules, by address and table.
    pub rules: Vec<(Cidr, u32)>,
    /// Routes in the tables.
    pub added: Vec<FullRoute>,
    /// Routes that were in the main table.
    pub moved: Vec<FullRoute>,
}

impl JsonPart for RoutingRecord {
    const KIND: PartKind = SOURCE_ROUTES;
}

impl RoutingRecord {
    /// The record of an attachment in the entered namespace. An unreadable record counts as missing.
    pub fn earlier(at: &Attachment, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let Some(record) = Self::read(at, host)? else { return Ok(None) };
        Ok(is_of_entered(record.namespace.as_deref(), host)?.then_some(record))
    }

    /// The record of an ADD that wrote none: only its rules can be found.
    pub fn of_rules(rules: Vec<SourceRule>) -> Self {
        let rules = rules.into_iter().map(|rule| (rule.source, rule.table)).collect();
        Self { rules, ..Self::default() }
    }

    /// The record of a new ADD in the entered namespace, with what an earlier one has done there.
    pub fn with(mut self, routing: &InterfaceRouting, host: &mut dyn Host) -> Result<Self, Error> {
        self.namespace = host.namespaces().identity(Ns::Container)?;
        for source in routing.sources.iter().filter(|source| !source.has_rule) {
            push_new(&mut self.rules, (source.rule.source, source.rule.table));
        }
        routing.added().chain(&routing.hinted).for_each(|route| push_new(&mut self.added, route.clone()));
        // A route that an earlier ADD added is not one to restore.
        let moved = routing.moved.iter().filter(|route| !self.added.contains(route));
        moved.for_each(|route| push_new(&mut self.moved, route.clone()));
        self.moved.sort_by_key(|route| route.gateway.is_some());
        Ok(self)
    }
}
