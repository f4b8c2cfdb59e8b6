//! The ifb on which packets of the container wait: its names and its owner.
//!
//! The reference derives its name from the network and the container only, so a second interface of a container in a
//! network cannot have one. This plugin uses that name if it is free, and otherwise a name that depends on the
//! interface too.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName, hash_hex};
use cni_interface::alias::LinkOwner;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};

use crate::port::Port;

/// The kernel's word for such a link.
pub const KIND: &str = "ifb";

/// The beginning of the names, and the number of hexadecimal digits that follow.
const PREFIX: &str = "bwp";
const DIGITS: usize = 12;

/// The two names that the ifb of an attachment may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IfbNames {
    /// The reference's, which all interfaces of the container in the network have.
    pub shared: IfName,
    /// The interface's own.
    pub own: IfName,
}

impl IfbNames {
    /// Those of an attachment.
    ///
    /// # Errors
    /// None in fact: the names have 15 characters.
    pub fn of(at: &Attachment) -> Result<Self, Error> {
        let Attachment { network, container, ifname } = at;
        let named = |text: String| IfName::parse(&format!("{PREFIX}{}", &hash_hex(&text)[..DIGITS]));
        let shared = named(format!("{network}{container}"))?;
        Ok(Self { shared, own: named(format!("{network}{container}{ifname}"))? })
    }
}

/// Whether a link has the name of an ifb, of any attachment.
pub fn has_name(link: &Link) -> bool {
    let is_digit = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
    link.name.strip_prefix(PREFIX).is_some_and(|rest| rest.len() == DIGITS && rest.chars().all(is_digit))
}

/// The ifb that ADD is to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenIfb {
    pub name: IfName,
    /// The one that an earlier ADD has made.
    pub found: Option<Link>,
}

/// Chooses one: that of an earlier ADD, or else a free name.
pub fn choose(at: &Attachment, port: &Port, host: &mut dyn Host) -> Result<ChosenIfb, Error> {
    if let Some(found) = of(at, Some(port), host)?.pop() {
        return Ok(ChosenIfb { name: IfName::parse(&found.name)?, found: Some(found) });
    }
    let names = IfbNames::of(at)?;
    for name in [&names.shared, &names.own] {
        if host.link(Ns::Host, name)?.is_none() {
            return Ok(ChosenIfb { name: name.clone(), found: None });
        }
    }
    let details = format!("the links {} and {} of the host are somebody else's", names.shared, names.own);
    Err(fail!(Conflict, "adding link: file exists", details: "{details}"))
}

/// The existing ifbs of an attachment; `port` is the host's end of its interface, if it still exists.
pub fn of(at: &Attachment, port: Option<&Port>, host: &mut dyn Host) -> Result<Vec<Link>, Error> {
    let IfbNames { shared, own } = IfbNames::of(at)?;
    let mut found = Vec::new();
    for name in [shared, own] {
        if let Some(link) = host.link(Ns::Host, &name)?.filter(is_ifb)
            && is_of(&link, at, port, host)?
        {
            found.push(link);
        }
    }
    Ok(found)
}

/// The ifbs of an attachment that say so themselves.
pub fn noted(at: &Attachment, host: &mut dyn Host) -> Result<Vec<Link>, Error> {
    let IfbNames { shared, own } = IfbNames::of(at)?;
    let mut found = Vec::new();
    for name in [shared, own] {
        let link = host.link(Ns::Host, &name)?;
        found.extend(link.filter(|link| is_ifb(link) && LinkOwner::of(link, at) == LinkOwner::This));
    }
    Ok(found)
}

pub fn is_ifb(link: &Link) -> bool {
    link.kind.as_deref() == Some(KIND)
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

/// The veths of the host from which packets go to an ifb.
pub fn sources(ifb: &Link, host: &mut dyn Host) -> Result<Vec<Port>, Error> {
    let mut found = Vec::new();
    for link in host.links(Ns::Host, LinkQuery::Kind("veth"))? {
        if host.devices().traffic_control(Ns::Host, link.index)?.redirects.contains(&ifb.index) {
            found.push(Port::of(link)?);
        }
    }
    Ok(found)
}

/// The links to which packets go from any veth of the host.
pub fn targets(host: &mut dyn Host) -> Result<BTreeSet<u32>, Error> {
    let mut found = BTreeSet::new();
    for link in host.links(Ns::Host, LinkQuery::Kind("veth"))? {
        found.extend(host.devices().traffic_control(Ns::Host, link.index)?.redirects);
    }
    Ok(found)
}
