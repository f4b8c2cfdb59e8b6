//! The host's end of the container's veth.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface};
use cni_interface::alias::LinkOwner;
use cni_interface::veth;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

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

/// What helps where there is no interface to limit.
const BEHIND: &str = "bandwidth limits the interface that a plugin before it in the list has made";

/// The result of the plugins before.
pub fn prev_result(request: &Request) -> Result<CniResult, Error> {
    let alone = || fail!(InvalidConfig, "must be called as chained plugin", details: "{BEHIND}");
    request.prev_result()?.ok_or_else(alone)
}

/// Finds it, which ADD and CHECK cannot do without. The result of the plugins before names it as an interface of the host.
///
/// # Errors
/// When the interface is missing or no veth, or when its other end is elsewhere or not in the result.
pub fn require(ifname: &IfName, result: &CniResult, host: &mut dyn Host) -> Result<Port, Error> {
    if result.interfaces.is_empty() {
        return Err(fail!(InvalidConfig, "no interfaces provided", details: "{BEHIND}"));
    }
    let port = other_end(ifname, host)?;
    let is_it = |reported: &Interface| reported.sandbox.is_empty() && reported.name == port.link.name;
    if !result.interfaces.iter().any(is_it) {
        let (text, name) = ("no veth peer of container interface found in host ns", port.link.name);
        return Err(fail!(
            UnsupportedField,
            "{text}",
            details: "the other end is {name}, which prevResult does not have as an interface of the host"
        ));
    }
    Ok(port)
}

fn other_end(ifname: &IfName, host: &mut dyn Host) -> Result<Port, Error> {
    let name = ifname.as_str();
    let refused = |text: String| {
        fail!(
            UnsupportedField,
            "{text}",
            details: "bandwidth works at the host's end of a veth, as bridge and ptp make one"
        )
    };
    let no_veth = |reason| refused(format!("container interface {name} has no veth peer: {reason}"));
    let link = host.link(Ns::Container, ifname)?;
    let link = link.ok_or_else(|| no_veth(format!("could not look up {name:?}: Link not found")))?;
    if !veth::is_veth(&link) {
        return Err(no_veth(format!("interface {name:?} was not a veth interface")));
    }
    let elsewhere = || refused(format!("veth peer of container interface {name} is not in host ns"));
    Port::of(veth::host_end(&link, host)?.ok_or_else(elsewhere)?)
}

/// Finds it, unless it is missing or another attachment's: the path of the namespace may lead to another container by
/// now.
pub fn find(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<Option<Port>, Error> {
    if !host.enter_if_exists(request.netns().unwrap_or_default())? {
        return Ok(None);
    }
    let Some(link) = host.link(Ns::Container, &at.ifname)? else { return Ok(None) };
    let end = veth::host_end(&link, host)?.filter(|end| match LinkOwner::of(end, at) {
        LinkOwner::This | LinkOwner::Unlabelled => true,
        LinkOwner::Another => false,
    });
    end.map(Port::of).transpose()
}
