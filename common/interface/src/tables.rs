//! The routing tables of a container: which are in use, the lock for choosing one, and the routes of an interface.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::request::Request;
use cni_model::plan::Ns;
use cni_model::routing::FullRoute;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::lock::LockName;

/// The kernel's own tables: unspecified, `default`, `main` and `local` of `linux/rtnetlink.h`.
pub const RESERVED: [u32; 4] = [0, 253, 254, 255];

/// Keeps other processes from choosing the same table of the namespace that was entered.
pub fn lock(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let namespace = match host.namespaces().identity(Ns::Container)? {
        Some(identity) => identity,
        None => request.netns().unwrap_or_default().to_owned(),
    };
    host.lock(&LockName::routing(&namespace))
}

/// The same for DEL, which goes on without the lock.
pub fn lock_or_warn(request: &Request, host: &mut dyn Host) {
    if let Err(error) = lock(request, host) {
        log::warn!("DEL goes on without its lock: {}", error.in_full());
    }
}

/// The tables of the namespace that was entered which are the kernel's own, or which a VRF, a rule or a route has.
pub fn taken(host: &mut dyn Host) -> Result<BTreeSet<u32>, Error> {
    let mut taken = BTreeSet::from(RESERVED);
    taken.extend(host.links(Ns::Container, LinkQuery::Kind("vrf"))?.iter().filter_map(|link| link.vrf_table));
    for family in Family::ALL {
        taken.extend(host.routing().rules(Ns::Container, family)?.iter().map(|rule| rule.table));
        taken.extend(host.routing().routes(Ns::Container, family, None)?.iter().map(|route| route.table));
    }
    Ok(taken)
}

/// The routes of both families that leave by a link, in one table.
pub fn routes_of(link: u32, table: u32, host: &mut dyn Host) -> Result<Vec<FullRoute>, Error> {
    let mut routes = Vec::new();
    for family in Family::ALL {
        routes.extend(host.routing().full_routes(Ns::Container, family, table)?);
    }
    routes.retain(|route| route.link == link);
    Ok(routes)
}

/// The first table from a number on that is not taken.
pub fn free(first: u32, taken: &BTreeSet<u32>) -> u32 {
    (first..).find(|table| !taken.contains(table)).unwrap_or(first)
}
