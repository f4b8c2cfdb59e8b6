//! Finds the container of other plugins, such as the reference's, that has got the address of one that is gone.
//!
//! These plugins record nothing about their containers, and what they make for an address, such as a rule that names nothing else,
//! looks the same for each container that has it. A container of ours is known by the alias of its veth, and by records.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_core::result::CniResult;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::namespace::RecordedNamespace;

use crate::alias::LinkOwner;
use crate::earlier;

/// The kind of link.
const VETH: &str = "veth";

/// An attachment that may no longer have an address.
#[derive(Clone, Copy, Debug)]
pub struct FormerHolder<'a> {
    /// The attachment.
    pub at: &'a Attachment,
    /// Its namespace, if it is recorded.
    pub home: Option<&'a RecordedNamespace>,
    /// The result of its ADD, which names its end of a veth on the host; an empty one if it is not known.
    pub result: &'a CniResult,
}

/// Finds the veth of a container of other projects' plugins that has `address` now. Never returns the veth of the former holder itself.
///
/// # Errors
/// When the kernel does not answer.
pub fn find(address: IpAddr, former: FormerHolder<'_>, host: &mut dyn Host) -> Result<Option<Link>, Error> {
    let ends = &former.result.interfaces;
    let is_own = |link: &Link| ends.iter().any(|one| one.sandbox.is_empty() && one.name == link.name);
    for link in host.links(Ns::Host, LinkQuery::Kind(VETH))? {
        if LinkOwner::of(&link, former.at) != LinkOwner::Unlabelled || is_own(&link) {
            continue;
        }
        let found = host.namespaces().peer_addresses(&link)?.unwrap_or_default();
        if found.iter().any(|one| one.cidr.address() == address)
            && !former.home.is_some_and(|home| may_lead_home(&link, home, host))
        {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

/// Whether the other end of a veth is in the recorded namespace, or in one that ends within a moment. A number that the kernel has
/// chosen does not tell: another namespace may have it by now.
fn may_lead_home(link: &Link, home: &RecordedNamespace, host: &mut dyn Host) -> bool {
    let number = home.number.map(|number| number.value);
    if number.is_none() || link.peer_netns != number {
        return false;
    }
    let is_end = |other: &Link| Some(other.index) == link.peer && other.peer == Some(link.index);
    let views = host.namespaces().survey(Some(VETH));
    let view = views.iter().find(|view| view.links.iter().any(is_end));
    match view.and_then(|view| view.identity.as_deref()) {
        Some(identity) => identity == home.identity,
        None => IfName::parse(&link.name).is_ok_and(|name| earlier::await_end(name, host)),
    }
}
