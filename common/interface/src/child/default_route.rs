//! Finds the master if the configuration names none: the link of the default route.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_model::link::{KernelRoute, Link};
use cni_model::plan::Ns;
use cni_model::routing::MAIN_TABLE;
use cni_plugin::host::Host;

/// The link of the first default route that leads to an Ethernet link: IPv4 before IPv6, and the lowest metric first,
/// which is the kernel's order. Of several next hops the first such counts.
///
/// # Errors
/// When the kernel does not answer.
pub fn link(ns: Ns, host: &mut dyn Host) -> Result<Result<Link, Error>, Error> {
    let mut unusable = Vec::new();
    for family in Family::ALL {
        let routes = host.routing().routes(ns, family, Some(MAIN_TABLE))?;
        for route in routes.iter().filter(|route| route.dst == family.default_route()) {
            match by_route(route, ns, host)? {
                Ok(link) => return Ok(Ok(link)),
                Err(reason) => unusable.push(format!("the default route of IP{family} {reason}")),
            }
        }
    }
    let why = match &unusable[..] {
        [] => format!("and the {ns} has no default route"),
        unusable => format!("and on the {ns} {}", unusable.join(", and ")),
    };
    Ok(Err(fail!(InvalidConfig, "no default route interface found", details: "master is not given, {why}")))
}

/// The link of a route, or why it has none.
fn by_route(route: &KernelRoute, ns: Ns, host: &mut dyn Host) -> Result<Result<Link, String>, Error> {
    if !route.unicast {
        return Ok(Err("rejects packets".to_owned()));
    }
    let mut names = Vec::new();
    for index in &route.links {
        match host.link_by_index(ns, *index)? {
            Some(link) if is_ethernet(&link) => return Ok(Ok(link)),
            other => names.extend(other.map(|link| link.name)),
        }
    }
    Ok(Err(format!("leads to no Ethernet link but {}", names.join(" and "))))
}

/// Tunnels have other addresses, and `lo` has one of zeros.
fn is_ethernet(link: &Link) -> bool {
    link.mac.as_ref().is_some_and(|mac| mac.bytes().len() == 6)
}
