//! Changes addresses, routes and policy routing rules.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_model::plan::{Dad, IfPresent, NewGateway, NewRoute, Ns, Step};
use cni_model::routing::{FullRoute, IPV6_METRIC, SourceRule};

use super::answer::{Creation, accept_absent, accept_existing, created, index, refusal};
use crate::locks::{PATIENCE, take_short};
use crate::machine::LinuxHost;

/// The lock around changes of the host's addresses, which are done in less than a millisecond.
const LOCK: &str = "addresses.lock";

/// Adds an address to a link.
pub(super) fn add_address(
    host: &mut LinuxHost,
    ns: Ns,
    name: &IfName,
    cidr: Cidr,
    dad: Dad,
    if_present: IfPresent,
) -> Result<Creation, Error> {
    let index = index(host, ns, name)?;
    Ok(created(host.socket(ns)?.add_address(index, cidr, dad), if_present)?)
}

/// Decides by the addresses that the link has while no other ADD can give it one, and changes them.
pub(super) fn ensure_gateway(host: &mut LinuxHost, gateway: &NewGateway) -> Result<(), Error> {
    let _lock = take_short(LOCK, PATIENCE)?;
    let index = index(host, Ns::Host, &gateway.link)?;
    let socket = host.socket(Ns::Host)?;
    for cidr in gateway.unwanted(&socket.addresses(index, None)?)? {
        accept_absent(socket.remove_address(index, cidr))?;
    }
    accept_existing(socket.add_address(index, gateway.cidr, Dad::Skip))?;
    Ok(())
}

/// Removes an address, if the link and the address exist.
pub(super) fn remove_address(host: &mut LinuxHost, ns: Ns, name: &IfName, cidr: Cidr) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    if let Some(link) = socket.link(name.as_str())? {
        accept_absent(socket.remove_address(link.index, cidr))?;
    }
    Ok(())
}

/// Adds a route; returns the step that removes it, unless it existed before.
pub(super) fn add_route(host: &mut LinuxHost, ns: Ns, route: &FullRoute) -> Result<Option<Step>, Error> {
    let socket = host.socket(ns)?;
    let before = socket.full_routes(route.dst.family(), route.table)?;
    let undo = Step::RemoveFullRoute { ns, route: route.clone() };
    match accept_existing(socket.add_full_route(route)) {
        Ok(Creation::Now) => Ok(Some(undo)),
        Ok(Creation::Earlier) => Ok(None),
        Err(refused) => {
            // The kernel's answer may have been lost.
            let undone = if before.iter().any(|found| is_same(found, route)) {
                Ok(())
            } else {
                accept_absent(socket.remove_full_route(route))
            };
            Err(refusal(refused, undone))
        }
    }
}

/// Adds a route of a link that does not exist yet.
pub(super) fn add_route_of(host: &mut LinuxHost, ns: Ns, link: u32, route: &NewRoute) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    socket.add_route(link, route).map_err(|refused| {
        // The kernel's answer may have been lost.
        let undone = match refused.errno() {
            Some(libc::EEXIST) | None => Ok(()),
            _ => socket.remove_route(link, route).map(|_| ()),
        };
        refusal(refused, undone)
    })
}

/// The kernel's errors for a route that does not fit the interface. The same route would be refused later too.
const UNFIT: [i32; 7] = [
    libc::EACCES,
    libc::EADDRNOTAVAIL,
    libc::EHOSTUNREACH,
    libc::EINVAL,
    libc::ENETDOWN,
    libc::ENETUNREACH,
    libc::ENODEV,
];

/// Adds a former route again, unless it no longer fits the interface.
pub(super) fn restore_route(host: &mut LinuxHost, ns: Ns, route: &FullRoute) -> Result<(), Error> {
    match accept_existing(host.socket(ns)?.add_full_route(route)) {
        Err(refused) if refused.errno().is_some_and(|number| UNFIT.contains(&number)) => {
            log::warn!("route {route} is not restored: {}", Error::from(refused).in_full());
            Ok(())
        }
        added => Ok(added.map(|_| ())?),
    }
}

/// Whether two values describe the same route; one is from the kernel, which gives an IPv6 route without a metric a usual one.
fn is_same(found: &FullRoute, route: &FullRoute) -> bool {
    let is_usual = route.metric == 0 && route.dst.family() == Family::V6 && found.metric == IPV6_METRIC;
    (found.metric == route.metric || is_usual)
        && (found.dst, found.gateway, found.link) == (route.dst, route.gateway, route.link)
}

/// Removes a route; returns the step that adds it again, if it existed.
pub(super) fn remove_route(host: &mut LinuxHost, ns: Ns, route: &FullRoute) -> Result<Option<Step>, Error> {
    let socket = host.socket(ns)?;
    match socket.remove_full_route(route) {
        Ok(()) => Ok(Some(Step::AddFullRoute { ns, route: route.clone() })),
        Err(error) if matches!(error.errno(), Some(libc::ESRCH | libc::ENOENT | libc::ENODEV)) => Ok(None),
        Err(refused) => {
            // The kernel's answer may have been lost.
            let is_gone = socket.full_routes(route.dst.family(), route.table).is_ok_and(|now| !now.contains(route));
            let undone = if is_gone { accept_existing(socket.add_full_route(route)).map(|_| ()) } else { Ok(()) };
            Err(refusal(refused, undone))
        }
    }
}

/// Adds a rule that does not exist yet.
pub(super) fn add_rule(host: &mut LinuxHost, ns: Ns, rule: &SourceRule) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    socket.add_rule(rule).map_err(|refused| {
        // The kernel's answer may have been lost.
        let undone = accept_absent(socket.remove_rule(rule));
        refusal(refused, undone)
    })
}

/// Removes a rule; a missing one is success.
pub(super) fn remove_rule(host: &mut LinuxHost, ns: Ns, rule: &SourceRule) -> Result<(), Error> {
    Ok(accept_absent(host.socket(ns)?.remove_rule(rule))?)
}
