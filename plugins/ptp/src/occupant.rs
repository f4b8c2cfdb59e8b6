//! Finds who owns an existing route of the host to the address of a new container.
//!
//! The reference keeps such a route, so packets to the new container go where the old route leads. This plugin refuses
//! the address if another container uses it. A veth without an alias is not this plugin's: a failed ADD of the reference has left
//! it, or a container has it. Only if no process can use it, its route is replaced.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_interface::alias::LinkOwner;
use cni_interface::earlier;
use cni_interface::veth::is_veth;
use cni_model::link::Link;
use cni_model::netns::Occupancy;
use cni_model::plan::{Ns, Step};
use cni_plugin::host::{Host, LinkQuery};

use crate::gateway::RoutedAddress;

/// The steps that take stale routes to the addresses away.
///
/// # Errors
/// For a route that is in use, or when the kernel does not answer.
pub fn evict(at: &Attachment, addresses: &[RoutedAddress], host: &mut dyn Host) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    for routed in addresses {
        let address = routed.address.address();
        let Some(link) = host.links(Ns::Host, LinkQuery::RouteTo(address))?.pop() else { continue };
        if let Some(user) = find_user(&link, at, host)? {
            let text = format!("address {address} is in use: the host has a route to it by {:?}", link.name);
            return Err(fail!(Conflict, "{text}", details: "{user}"));
        }
        let name = IfName::parse(&link.name)?;
        log::warn!("the host's route to {address} by {name} is replaced: no plugin has noted whose {name} is");
        steps.push(Step::RemoveRoute { ns: Ns::Host, name, route: routed.host_route() });
    }
    Ok(steps)
}

/// Says who uses a link; `None` if it is a veth that nobody uses. A veth with an alias is used as long as its other end is in a
/// namespace that lives.
fn find_user(link: &Link, at: &Attachment, host: &mut dyn Host) -> Result<Option<String>, Error> {
    let by_alias = link.alias.as_deref().map_or_else(String::new, |alias| format!("that link is {alias}"));
    match LinkOwner::of(link, at) {
        _ if !is_veth(link) => Ok(Some(by_alias)),
        LinkOwner::Unlabelled => find_process(link, host),
        LinkOwner::This | LinkOwner::Another => {
            let has_ended = earlier::await_end(IfName::parse(&link.name)?, host);
            Ok(Some(by_alias).filter(|_| !has_ended))
        }
    }
}

/// Says which process may use a veth, since it is in the namespace of the other end. A failed ADD leaves a namespace without
/// processes. The addresses there do not count: a sandbox such as gVisor takes them from the kernel.
fn find_process(link: &Link, host: &mut dyn Host) -> Result<Option<String>, Error> {
    let (Some(number), Some(index)) = (link.peer_netns, link.peer) else { return Ok(None) };
    Ok(match host.namespaces().occupancy(number, index)? {
        Occupancy::Empty => None,
        Occupancy::Occupied(path) => Some(format!("a process uses that link: {path} leads to its namespace")),
        Occupancy::Unknown(reason) => Some(format!("a process may use that link: {reason}")),
    })
}
