//! What DEL and GC find of an attachment: its interface inside the container, and links on the host that say
//! by their alias whose they are.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::{Attachment, IfName, NetworkName};
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::{Host, LinkQuery, NetnsError};
use cni_plugin::link::Link;
use cni_plugin::plan::{Ns, Step};
use cni_plugin::removal::Removal;

use crate::alias;

/// What DEL finds inside the container: the interface, its addresses, and those of other interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether there was a namespace to look into.
    pub reached: bool,
    /// The interface.
    pub link: Option<Link>,
    /// Its addresses.
    pub own: Vec<Cidr>,
    /// The addresses of other interfaces of the container.
    pub others: Vec<IpAddr>,
}

/// Looks into the container. A namespace that is gone took its interfaces with it.
///
/// # Errors
/// When the namespace exists and cannot be entered, or the kernel does not answer.
pub fn observe_sandbox(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<Sandbox, Error> {
    if !is_reached(request, host)? {
        return Ok(Sandbox::default());
    }
    let link = host.link(Ns::Container, &at.ifname)?;
    let own: Vec<Cidr> = match &link {
        Some(link) => {
            host.addresses(Ns::Container, Some(link.index), None)?.iter().map(|address| address.cidr).collect()
        }
        None => Vec::new(),
    };
    let all = host.addresses(Ns::Container, None, None)?;
    let others = all.iter().map(|address| address.cidr).filter(|cidr| !own.contains(cidr));
    let others = others.map(Cidr::address).collect();
    Ok(Sandbox { reached: true, link, own, others })
}

/// Removes the interface from the container. It is not a failure if the interface or the namespace is gone.
///
/// # Errors
/// When the namespace exists and cannot be entered, or the kernel refuses.
pub fn remove_interface(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    if is_reached(request, host)? {
        let name = request.attachment()?.ifname;
        host.apply(&Step::RemoveLink { ns: Ns::Container, name })?;
    }
    Ok(())
}

fn is_reached(request: &Request, host: &mut dyn Host) -> Result<bool, NetnsError> {
    match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => Ok(true),
        Err(NetnsError::Gone { .. }) => Ok(false),
        Err(error @ NetnsError::Failed { .. }) => Err(error),
    }
}

/// Removes the links on the host whose alias says that they are an attachment's. The runtime may have lost the
/// namespace while it lives; then they are all that can be found.
///
/// # Errors
/// The first failure; one link does not keep the others.
pub fn remove_links_of(at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    let alias = alias::of(at);
    let mut links = host.links(Ns::Host, LinkQuery::Kind("veth"))?;
    links.retain(|link| link.alias.as_ref() == Some(&alias));
    let mut removal = Removal::new(host);
    for link in links {
        let name = IfName::parse(&link.name)?;
        removal.step(&Step::RemoveLink { ns: Ns::Host, name });
    }
    removal.finish()
}

/// The links on the host whose alias names another attachment of the network than the valid ones.
///
/// # Errors
/// When the kernel does not answer.
pub fn stale_links(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<Vec<Link>, Error> {
    let kept: Vec<String> = valid.of_network(network).map(|at| alias::of(&at)).collect();
    let start = alias::start(network);
    let is_stale = |alias: &String| alias.starts_with(&start) && !kept.contains(alias);
    let mut links = host.links(Ns::Host, LinkQuery::Kind("veth"))?;
    links.retain(|link| link.alias.as_ref().is_some_and(is_stale));
    Ok(links)
}

#[cfg(test)]
mod tests;
