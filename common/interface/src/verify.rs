//! Compares a container's interface with the result of ADD, for CHECK, and looks at the kernel, for STATUS. It changes nothing.
//!
//! Routes and addresses that ADD did not add are ignored.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface, Route};
use cni_model::link::{KernelRoute, Link};
use cni_model::plan::Ns;
use cni_model::routing::MAIN_TABLE;
use cni_plugin::host::Host;

/// Returns the result of ADD, which CHECK needs.
///
/// # Errors
/// When the configuration has no `prevResult`, or one that cannot be read.
pub fn prev_result(request: &Request) -> Result<CniResult, Error> {
    request.prev_result()?.ok_or_else(|| fail!(InvalidConfig, "Required prevResult missing"))
}

/// The container's interface in the result: the last one of the name that is in the namespace.
///
/// # Errors
/// When it is in another namespace, or missing.
pub fn interface_of_result<'a>(result: &'a CniResult, name: &IfName, netns: &str) -> Result<&'a Interface, Error> {
    let named = |interface: &&Interface| interface.name == name.as_str();
    let inside = || result.interfaces.iter().filter(named).filter(|interface| !interface.sandbox.is_empty());
    match (inside().rfind(|interface| interface.sandbox == netns), inside().next_back()) {
        (Some(interface), _) => Ok(interface),
        (None, Some(Interface { sandbox, .. })) => {
            Err(fail!(CheckFailed, "Sandbox in prevResult {sandbox} doesn't match configured netns: {netns}"))
        }
        (None, None) => Err(fail!(InvalidConfig, "prevResult has no interface {name} in {netns:?}")),
    }
}

/// Requires that the result names an interface on the host.
pub fn require_on_host(result: &CniResult, name: &IfName) -> Result<(), Error> {
    if result.interfaces.iter().any(|reported| reported.name == name.as_str() && reported.sandbox.is_empty()) {
        Ok(())
    } else {
        Err(fail!(InvalidConfig, "prevResult has no interface {name} on the host"))
    }
}

/// The MAC address of an interface in the result.
pub fn mac_of_result(reported: &Interface) -> Result<Mac, Error> {
    let Interface { name, mac, .. } = reported;
    mac.parse().map_err(
        |error| fail!(InvalidConfig, "invalid mac {mac:?} of interface {name} in prevResult", details: "{error}"),
    )
}

/// A link that must exist.
pub fn present(ns: Ns, name: &IfName, host: &mut dyn Host) -> Result<Link, Error> {
    host.link(ns, name)?.ok_or_else(|| fail!(CheckFailed, "Interface name {name} not found in the {ns} namespace"))
}

/// Requires that a link has this kind.
pub fn kind(link: &Link, wanted: &'static str) -> Result<(), Error> {
    if link.kind.as_deref() == Some(wanted) {
        Ok(())
    } else {
        let name = &link.name;
        Err(fail!(CheckFailed, "Interface {name} does not have link type of {wanted}"))
    }
}

/// Requires, for STATUS, that the kernel can make links of a kind, by its own word.
pub fn known_kind(kind: &'static str, host: &mut dyn Host) -> Result<(), Error> {
    if host.devices().has_link_kind(kind)? {
        return Ok(());
    }
    Err(fail!(NotAvailable, "this kernel has no links of kind {kind}, load their module"))
}

/// Requires that a link is up.
pub fn up(ns: Ns, link: &Link) -> Result<(), Error> {
    let Link { name, up, .. } = link;
    if *up { Ok(()) } else { Err(fail!(CheckFailed, "Interface {name} in the {ns} namespace is down")) }
}

/// Requires that a link has the MAC address of the result, if the result has one.
pub fn mac(link: &Link, reported: &Interface) -> Result<(), Error> {
    if reported.mac.is_empty() || link.mac.as_ref().is_some_and(|mac| mac.is(&reported.mac)) {
        Ok(())
    } else {
        let found = link.mac.as_ref().map(ToString::to_string).unwrap_or_default();
        let (name, reported) = (&link.name, &reported.mac);
        Err(fail!(CheckFailed, "Interface {name} Mac {reported} doesn't match container Mac: {found}"))
    }
}

/// Requires that a link in the container has the addresses of the result, each with the route to its network. An
/// address with a full-length prefix has no such route.
pub fn addresses(result: &CniResult, link: &Link, host: &mut dyn Host) -> Result<(), Error> {
    connected(result, link, &mut FoundRoutes::default(), host)
}

/// Requires the same, and that the routes of the result are in their tables of the container. As in the reference, a default route may
/// have another next hop.
pub fn addresses_and_routes(result: &CniResult, link: &Link, host: &mut dyn Host) -> Result<(), Error> {
    let mut found = FoundRoutes::default();
    connected(result, link, &mut found, host)?;
    result.routes.iter().try_for_each(|route| present_route(route, &mut found, host))
}

fn connected(result: &CniResult, link: &Link, routes: &mut FoundRoutes, host: &mut dyn Host) -> Result<(), Error> {
    let found = host.addresses(Ns::Container, Some(link.index), None)?;
    for ip in result.ips_of(&link.name) {
        let (address, name) = (ip.address, &link.name);
        if !found.iter().any(|found| found.cidr == address) {
            return Err(fail!(CheckFailed, "Failed to match addr {address} on interface {name}"));
        }
        let network = address.network();
        let is_connected = |route: &KernelRoute| route.dst == network && route.links == [link.index];
        let single = address.prefix() == address.family().bits();
        if !single && !routes.have(address.family(), MAIN_TABLE, is_connected, host)? {
            let text = format!("the route to {network} of address {address}");
            return Err(fail!(CheckFailed, "Failed to find {text} for interface {name}"));
        }
    }
    Ok(())
}

fn present_route(route: &Route, routes: &mut FoundRoutes, host: &mut dyn Host) -> Result<(), Error> {
    let table =
        route.table.and_then(|table| u32::try_from(table).ok()).filter(|table| *table != 0).unwrap_or(MAIN_TABLE);
    let (dst, gw) = (route.dst, route.gw);
    // A DHCP server says so of a destination on the link.
    let router = gw.filter(|gw| !gw.is_unspecified());
    let leads = |found: &KernelRoute| {
        found.dst == dst.network() && router.is_none_or(|gw| route.is_default() || found.gateways.contains(&gw))
    };
    if routes.have(route.family(), table, leads, host)? {
        Ok(())
    } else {
        let via = gw.map_or_else(String::new, |gw| format!(" via {gw}"));
        Err(fail!(CheckFailed, "Expected Route to {dst}{via} not found in routing table {table}"))
    }
}

/// The routes of the container, as they were listed at the first question about a table; `None` stands for all tables.
#[derive(Default)]
struct FoundRoutes(BTreeMap<(Family, Option<u32>), Vec<KernelRoute>>);

impl FoundRoutes {
    /// Whether a table has the route. A route of the main table may be in any table: sbr and vrf move routes from there to
    /// their own tables.
    fn have(
        &mut self,
        family: Family,
        table: u32,
        condition: impl Fn(&KernelRoute) -> bool,
        host: &mut dyn Host,
    ) -> Result<bool, Error> {
        if self.listed(family, Some(table), host)?.iter().any(&condition) {
            return Ok(true);
        }
        let moved = |route: &KernelRoute| route.unicast && condition(route);
        Ok(table == MAIN_TABLE && self.listed(family, None, host)?.iter().any(moved))
    }

    fn listed(&mut self, family: Family, table: Option<u32>, host: &mut dyn Host) -> Result<&[KernelRoute], Error> {
        Ok(match self.0.entry((family, table)) {
            Entry::Occupied(listed) => listed.into_mut(),
            Entry::Vacant(none) => none.insert(host.routing().routes(Ns::Container, family, table)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETNS: &str = "/run/netns/c";

    fn interface(name: &str, mac: &str, sandbox: &str) -> Interface {
        Interface { name: name.to_owned(), mac: mac.to_owned(), sandbox: sandbox.to_owned(), ..Interface::default() }
    }

    fn link(name: &str) -> Link {
        let mac = "02:00:00:00:00:0a".parse().ok();
        Link { name: name.to_owned(), kind: Some("dummy".to_owned()), mac, up: true, ..Link::default() }
    }

    fn reported(interfaces: Vec<Interface>) -> Result<String, String> {
        let result = CniResult { interfaces, ..CniResult::default() };
        interface_of_result(&result, &IfName::parse("eth0").expect("name"), NETNS)
            .map(|reported| reported.mac.clone())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_last_interface_of_the_name_in_the_namespace_counts() {
        let twice = vec![interface("eth0", "a", NETNS), interface("eth0", "b", NETNS), interface("eth1", "c", NETNS)];
        assert_eq!(reported(twice), Ok("b".to_owned()));
        let elsewhere = "Sandbox in prevResult /run/netns/other doesn't match configured netns: /run/netns/c";
        assert_eq!(reported(vec![interface("eth0", "a", "/run/netns/other")]), Err(elsewhere.to_owned()));
        let nowhere = r#"prevResult has no interface eth0 in "/run/netns/c""#;
        assert_eq!(reported(vec![interface("eth0", "a", "")]), Err(nowhere.to_owned()));
    }

    #[test]
    fn a_mac_is_compared_if_the_result_has_one_in_any_spelling() {
        let compare =
            |reported: &str| mac(&link("eth0"), &interface("eth0", reported, NETNS)).map_err(|error| error.to_string());
        for same in ["", "02:00:00:00:00:0A", "02-00-00-00-00-0A", "0200.0000.000a"] {
            assert_eq!(compare(same), Ok(()), "{same}");
        }
        let other = "Interface eth0 Mac 02:00:00:00:00:0b doesn't match container Mac: 02:00:00:00:00:0a";
        assert_eq!(compare("02:00:00:00:00:0b"), Err(other.to_owned()));
        assert_eq!(mac_of_result(&interface("eth0", "zz", NETNS)).expect_err("no MAC").code().number(), 7);
    }
}
