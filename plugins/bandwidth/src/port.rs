//! The host's end of the container's veth.

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface};
use cni_interface::alias::LinkOwner;
use cni_interface::veth;
use cni_model::link::Link;
use cni_model::netns::NetnsError;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use crate::error::BandwidthError;

/// A link of the host, with its name as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: IfName,
    pub link: Link,
}

impl Port {
    pub fn of(link: Link) -> Result<Self, Error> {
        Ok(Self { name: IfName::parse(&link.name)?, link })
    }

    /// Whether its alias names the attachment: bridge and ptp set it.
    pub fn is_of(&self, at: &Attachment) -> bool {
        LinkOwner::of(&self.link, at) == LinkOwner::This
    }
}

/// Finds it, which ADD and CHECK cannot do without. The result of the plugins before names it as an interface of the host.
///
/// # Errors
/// [`BandwidthError`] when the interface is missing or no veth, or when its other end is elsewhere or not in the result.
pub fn require(ifname: &IfName, result: &CniResult, host: &mut dyn Host) -> Result<Port, Error> {
    if result.interfaces.is_empty() {
        return Err(BandwidthError::NoInterfaces.into());
    }
    let port = other_end(ifname, host)?;
    let is_it = |reported: &Interface| reported.sandbox.is_empty() && reported.name == port.link.name;
    if !result.interfaces.iter().any(is_it) {
        return Err(BandwidthError::UnknownPort { name: port.link.name }.into());
    }
    Ok(port)
}

fn other_end(ifname: &IfName, host: &mut dyn Host) -> Result<Port, Error> {
    let no_veth = |reason: String| BandwidthError::NoVeth { ifname: ifname.to_string(), reason };
    let link = host.link(Ns::Container, ifname)?;
    let link = link.ok_or_else(|| no_veth(format!("could not look up {:?}: Link not found", ifname.as_str())))?;
    if !veth::is_veth(&link) {
        return Err(no_veth(format!("interface {:?} was not a veth interface", ifname.as_str())).into());
    }
    let end = veth::host_end(&link, host)?;
    Port::of(end.ok_or_else(|| BandwidthError::NoPort { ifname: ifname.to_string() })?)
}

/// Finds it, unless it is missing or another attachment's: the path of the namespace may lead to another container by
/// now.
pub fn find(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<Option<Port>, Error> {
    match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => {}
        Err(NetnsError::Gone { .. }) => return Ok(None),
        Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
    }
    let Some(link) = host.link(Ns::Container, &at.ifname)? else { return Ok(None) };
    let end = veth::host_end(&link, host)?.filter(|end| match LinkOwner::of(end, at) {
        LinkOwner::This | LinkOwner::Unlabelled => true,
        LinkOwner::Another => false,
    });
    end.map(Port::of).transpose()
}
