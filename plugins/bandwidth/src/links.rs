//! The links of the host by which a container's packets go: the host's end of its veth, its port, and the ifb.
//!
//! The reference derives the ifb's name from the network and the container only, so a second interface of a container in
//! a network cannot have one. This plugin uses that name if it is free, and otherwise a name that depends on the
//! interface too.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName, hash_hex};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface};
use cni_interface::alias::LinkOwner;
use cni_interface::veth;
use cni_model::link::Link;
use cni_model::plan::{Ns, Step};
use cni_plugin::host::{Host, LinkQuery};

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

/// Finds the port, which ADD and CHECK cannot do without. The result of the plugins before names it as an interface of the host.
///
/// # Errors
/// When the interface is missing or no veth, or when its other end is elsewhere or not in the result.
pub fn require_port(ifname: &IfName, result: &CniResult, host: &mut dyn Host) -> Result<Port, Error> {
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

/// Finds the port, unless it is missing or another attachment's: the path of the namespace may lead to another container by
/// now.
pub fn find_port(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<Option<Port>, Error> {
    if !host.enter_if_exists(request.netns().unwrap_or_default())? {
        return Ok(None);
    }
    let Some(link) = host.link(Ns::Container, &at.ifname)? else { return Ok(None) };
    let end = veth::host_end(&link, host)?.filter(|end| LinkOwner::of(end, at) != LinkOwner::Another);
    end.map(Port::of).transpose()
}

/// The kernel's word for an ifb.
pub const IFB: &str = "ifb";

/// The beginning of the names of ifbs, and the number of hexadecimal digits that follow.
const PREFIX: &str = "bwp";
const DIGITS: usize = 12;

/// The names that the ifb of an attachment may have: the reference's, which all interfaces of the container in the network
/// have, and the interface's own. Both have 15 characters.
pub fn ifb_names(at: &Attachment) -> Result<[IfName; 2], Error> {
    let Attachment { network, container, ifname } = at;
    let named = |text: String| IfName::parse(&format!("{PREFIX}{}", &hash_hex(&text)[..DIGITS]));
    let shared = named(format!("{network}{container}"))?;
    Ok([shared, named(format!("{network}{container}{ifname}"))?])
}

/// Whether a link has the name of an ifb, of any attachment.
pub fn has_ifb_name(link: &Link) -> bool {
    let is_digit = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
    link.name.strip_prefix(PREFIX).is_some_and(|rest| rest.len() == DIGITS && rest.chars().all(is_digit))
}

/// Chooses the ifb that ADD is to use: that of an earlier ADD, with its link, or else a free name.
pub fn choose_ifb(at: &Attachment, port: &Port, host: &mut dyn Host) -> Result<(IfName, Option<Link>), Error> {
    if let Some(found) = ifbs_of(at, Some(port), host)?.pop() {
        return Ok((IfName::parse(&found.name)?, Some(found)));
    }
    let names = ifb_names(at)?;
    for name in &names {
        if host.link(Ns::Host, name)?.is_none() {
            return Ok((name.clone(), None));
        }
    }
    let [shared, own] = names;
    let details = format!("the links {shared} and {own} of the host are somebody else's");
    Err(fail!(Conflict, "adding link: file exists", details: "{details}"))
}

/// The existing ifbs of an attachment; `port` is the host's end of its interface, if it still exists.
pub fn ifbs_of(at: &Attachment, port: Option<&Port>, host: &mut dyn Host) -> Result<Vec<Link>, Error> {
    ifbs_where(at, host, |link, host| is_of(link, at, port, host))
}

/// The ifbs of an attachment that say so themselves.
pub fn labelled_ifbs(at: &Attachment, host: &mut dyn Host) -> Result<Vec<Link>, Error> {
    ifbs_where(at, host, |link, _| Ok(LinkOwner::of(link, at) == LinkOwner::This))
}

fn ifbs_where(
    at: &Attachment,
    host: &mut dyn Host,
    is_own: impl Fn(&Link, &mut dyn Host) -> Result<bool, Error>,
) -> Result<Vec<Link>, Error> {
    let mut found = Vec::new();
    for name in ifb_names(at)? {
        if let Some(link) = host.link(Ns::Host, &name)?.filter(|link| link.kind.as_deref() == Some(IFB))
            && is_own(&link, host)?
        {
            found.push(link);
        }
    }
    Ok(found)
}

/// Whether an ifb of one of the names belongs to an attachment. The reference sets no alias, and may give the interface's own name to the
/// ifb of another container; then it belongs to the attachment whose packets are redirected to it.
fn is_of(link: &Link, at: &Attachment, port: Option<&Port>, host: &mut dyn Host) -> Result<bool, Error> {
    match LinkOwner::of(link, at) {
        LinkOwner::This => Ok(true),
        LinkOwner::Another => Ok(false),
        LinkOwner::Unlabelled => {
            let own = port.map(|port| port.link.index);
            for source in sources(link, host)?.iter().filter(|source| Some(source.link.index) != own) {
                // The veth of an ended namespace is still there for a moment.
                if host.namespaces().peer_addresses(&source.link)?.is_some() {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Leads the packets past an ifb, and removes it. Where the port is not known, all are asked.
pub fn remove_ifb(ifb: &Link, port: Option<&Port>, host: &mut dyn Host) -> Result<(), Error> {
    let name = IfName::parse(&ifb.name)?;
    let sources = match port {
        Some(port) => vec![port.clone()],
        None => sources(ifb, host)?,
    };
    for source in sources {
        host.apply(&Step::RemoveRedirect { ns: Ns::Host, name: source.name, to: name.clone() })?;
    }
    host.apply(&Step::RemoveLink { ns: Ns::Host, name }).map(drop)
}

/// The veths of the host from which packets go to an ifb.
fn sources(ifb: &Link, host: &mut dyn Host) -> Result<Vec<Port>, Error> {
    let sources = redirects(host)?.into_iter().filter(|(_, targets)| targets.contains(&ifb.index));
    sources.map(|(veth, _)| Port::of(veth)).collect()
}

/// The veths of the host, each with the links to which packets go from it.
pub fn redirects(host: &mut dyn Host) -> Result<Vec<(Link, Vec<u32>)>, Error> {
    let mut found = Vec::new();
    for veth in host.links(Ns::Host, LinkQuery::Kind("veth"))? {
        let targets = host.devices().traffic_control(Ns::Host, veth.index)?.redirects;
        found.push((veth, targets));
    }
    Ok(found)
}
