//! Finds what is left of an attachment, for DEL and GC: its interface inside the container, and links on the host
//! whose alias names it.

use std::net::IpAddr;

use cni_core::cidr::is_global;
use cni_core::error::Error;
use cni_core::names::{Attachment, IfName, NetworkName};
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_model::link::Link;
use cni_model::netns::NumberedLink;
use cni_model::plan::{Ns, Step, temporary_name};
use cni_plugin::attachment_record::{AttachmentRecord, LENDER, is_of_another_attachment};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::namespace::{Life, RecordedLink};
use cni_plugin::removal::Removal;

use crate::alias::{self, LinkOwner};
use crate::moved_on::{ExpectedLink, addresses_of, not_searched};
use crate::{verify, veth};

/// What DEL finds at the path of the namespace. The path may lead to another container by now: `/proc/<pid>/ns/net`
/// follows the process number. And root in the container may have made any interface, under any name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceContents {
    /// Whether it could be looked into. If not, only `others` is known, by the host's ends of veths of these plugins.
    pub is_seen: bool,
    /// The interface.
    pub veth: NamespaceVeth,
    /// Its addresses.
    pub own: Vec<IpAddr>,
    /// The addresses of other interfaces of the container in the same network.
    pub others: Vec<IpAddr>,
    /// The addresses of the container's other veths whose ends on the host name no attachment: the reference may have made them in the same
    /// network.
    pub unlabelled: Vec<IpAddr>,
}

/// The interface with the attachment's name inside the container, if it is the attachment's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamespaceVeth {
    /// No interface has the name, or another program made it, or it was made for another attachment.
    #[default]
    None,
    /// An end of a veth that [`LinkOwner::Unlabelled`] describes, by its index: made by the reference plugins.
    Unlabelled(u32),
    /// The attachment's own; the host's end has this name.
    Own(IfName),
}

/// Looks into the container. If the namespace has ended, its interfaces have ended too.
pub fn observe_sandbox(request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<NamespaceContents, Error> {
    let mut contents = NamespaceContents::default();
    if !host.enter_if_exists(request.netns().unwrap_or_default())? {
        contents.others = addresses_of_other_peers(at, host)?;
        return Ok(contents);
    }
    contents.is_seen = true;
    add_others(&mut contents, at, host)?;
    let Some(link) = host.link(Ns::Container, &at.ifname)? else { return Ok(contents) };
    contents.veth = judge(&link, request, at, host)?;
    if contents.veth != NamespaceVeth::None {
        contents.own = addresses_of(&link, host)?;
    }
    Ok(contents)
}

/// The alias at the host's end, which the container cannot change, names the owner of the interface. If it names no
/// attachment, the result of ADD may identify the interface.
fn judge(link: &Link, request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<NamespaceVeth, Error> {
    let Some(port) = veth::host_end(link, host)? else { return Ok(NamespaceVeth::None) };
    Ok(match LinkOwner::of(&port, at) {
        LinkOwner::This => NamespaceVeth::Own(IfName::parse(&port.name)?),
        LinkOwner::Unlabelled
            if has_reference_name(&port)
                && may_be_host_end(&port, request)
                && may_be_in_result(link, request, at, host)?
                && !is_of_another_attachment(at, link, host)? =>
        {
            NamespaceVeth::Unlabelled(link.index)
        }
        LinkOwner::Another | LinkOwner::Unlabelled => NamespaceVeth::None,
    })
}

/// Whether a veth of the host has a name as the reference and these plugins give. Other projects give other names.
fn has_reference_name(port: &Link) -> bool {
    let digits = port.name.strip_prefix("veth").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    digits.is_some_and(|digits| IfName::host_veth(digits).as_str() == port.name)
}

/// Whether a veth of the host may be the one in the result of ADD: the result names it, or nothing on the host.
fn may_be_host_end(port: &Link, request: &Request) -> bool {
    let result = request.prev_result().ok().flatten().unwrap_or_default();
    let mut on_host = result.interfaces.iter().filter(|one| one.sandbox.is_empty()).peekable();
    on_host.peek().is_none() || on_host.any(|one| one.name == port.name)
}

/// Whether an interface may be the one in the result of ADD, if there is a result. The MAC address identifies it; but
/// tuning restores the former one first, and the container may change it. Then the interface is another's if it has
/// addresses, and none of them is in the result. Without addresses to compare it counts as the attachment's, unless the
/// path of the namespace contains a process number: a name cannot lead to another container.
pub fn may_be_in_result(link: &Link, request: &Request, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let result = request.prev_result().ok().flatten().unwrap_or_default();
    let mut inside = result.interfaces.iter().filter(|one| one.name == at.ifname.as_str() && !one.sandbox.is_empty());
    let mac = inside.find_map(|one| verify::mac_of_result(one).ok());
    if mac.is_none_or(|mac| link.mac.as_ref() == Some(&mac)) {
        return Ok(true);
    }
    let reported: Vec<IpAddr> = result.ips_of(at.ifname.as_str()).map(|ip| ip.address.address()).collect();
    let mut found = addresses_of(link, host)?;
    found.retain(is_global);
    if reported.is_empty() || found.is_empty() {
        return Ok(!request.netns().unwrap_or_default().starts_with("/proc/"));
    }
    Ok(found.iter().any(|address| reported.contains(address)))
}

/// Adds the addresses of those veths of the container that the same network has attached under other names, and of those whose ends on the
/// host name no attachment.
fn add_others(contents: &mut NamespaceContents, at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    for link in host.links(Ns::Container, LinkQuery::Kind("veth"))? {
        let Some(port) = veth::host_end(&link, host)? else { continue };
        if is_of_other_interface(&port, at) || is_of_network(&port, at) {
            contents.others.extend(addresses_of(&link, host)?);
        } else if LinkOwner::of(&port, at) == LinkOwner::Unlabelled && link.name != at.ifname.as_str() {
            contents.unlabelled.extend(addresses_of(&link, host)?);
        }
    }
    Ok(())
}

/// The addresses of other interfaces of the container in the same network, found without its namespace: those at the other ends of the
/// host's veths.
fn addresses_of_other_peers(at: &Attachment, host: &mut dyn Host) -> Result<Vec<IpAddr>, Error> {
    let mut addresses = Vec::new();
    for port in host.links(Ns::Host, LinkQuery::Kind("veth"))? {
        if is_of_other_interface(&port, at) {
            let found = host.namespaces().peer_addresses(&port)?.unwrap_or_default();
            addresses.extend(found.iter().map(|address| address.cidr.address()));
        }
    }
    Ok(addresses)
}

/// Whether a veth of the host belongs to another interface of the container in the same network, by an alias that is short enough to name
/// both.
fn is_of_other_interface(port: &Link, at: &Attachment) -> bool {
    let owner = port.alias.as_deref().and_then(|alias| alias::owner(alias, &at.network));
    owner.is_some_and(|owner| owner.container == at.container && owner.ifname != at.ifname)
}

/// Whether a veth that leads into the container belongs to another attachment of the same network, by an alias that is too long to name its
/// container.
fn is_of_network(port: &Link, at: &Attachment) -> bool {
    LinkOwner::of(port, at) == LinkOwner::Another
        && port.alias.as_deref().is_some_and(|alias| alias::has_digest_of(alias, &at.network))
}

/// Removes the link that ADD made in the container, even under another name, and what a killed ADD left under its
/// temporary name. A link of another kind is not removed. Without a record, neither is a link with another MAC address
/// and other addresses than in the result of ADD: a path such as `/proc/<pid>/ns/net` may lead to another container by
/// now. If the runtime has lost a namespace that still exists, the link is removed by the namespace's number. A link
/// that the container has moved on is searched elsewhere. A missing interface or namespace is success.
///
/// # Errors
/// If the namespace exists and cannot be entered, or the kernel refuses; all parts are tried.
pub fn remove_child(kind: &'static str, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let at = request.attachment()?;
    let record = AttachmentRecord::find(&at, host);
    let is_reached = host.enter_if_exists(request.netns().unwrap_or_default())?;
    let mut removal = Removal::new(host);
    let of_record = |record, host: &mut dyn Host| ExpectedLink::of(kind, record, request, host);
    let expected = record.as_ref().and_then(|record| removal.attempt(|host| of_record(record, host)).flatten());
    let found = match &record {
        _ if is_reached => remove_reached_child(kind, request, &at, (record.as_ref(), expected.as_ref()), &mut removal),
        Some(record) => removal.attempt(|host| remove_numbered_child(kind, record, expected.as_ref(), host)),
        None => None,
    };
    if let (Some(expected), Some(ChildPlace::Elsewhere)) = (&expected, found) {
        removal.attempt(|host| expected.remove_elsewhere(host));
    }
    removal.finish()
}

/// Where the link of a record was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildPlace {
    /// In the recorded namespace.
    Inside,
    /// The container has deleted it, or moved it to another namespace. Another link may be in its place.
    Elsewhere,
}

/// The same for a namespace that is entered. Returns where the link was; `None` if that is unknown.
fn remove_reached_child(
    kind: &'static str,
    request: &Request,
    at: &Attachment,
    (record, expected): (Option<&AttachmentRecord>, Option<&ExpectedLink<'_>>),
    removal: &mut Removal<'_>,
) -> Option<ChildPlace> {
    let recorded = record.and_then(|record| record.link.as_ref());
    let is_ours = |link: &Link, host: &mut dyn Host| {
        Ok(is_of_kind(link, kind)
            && match recorded {
                Some(own) => own.may_be(link),
                None => may_be_in_result(link, request, at, host)? && !is_of_another_attachment(at, link, host)?,
            })
    };
    let is_in_place = expected.and_then(|expected| removal.attempt(|host| expected.is_in_entered(host)));
    let mut was_moved = false;
    for name in [at.ifname.clone(), temporary_name(&at.ifname)] {
        let found = removal.attempt(|host| host.link(Ns::Container, &name)).flatten();
        if let Some(link) = found.filter(|link| removal.attempt(|host| is_ours(link, host)) == Some(true)) {
            was_moved |= removal.attempt(|host| remove_found(link.index, host)) == Some(ChildPlace::Elsewhere);
        }
    }
    if let Some(recorded) = recorded.filter(|link| link.kind == kind) {
        was_moved |= removal.attempt(|host| remove_recorded(recorded, host)) == Some(ChildPlace::Elsewhere);
    }
    is_in_place.map(|it| if it && !was_moved { ChildPlace::Inside } else { ChildPlace::Elsewhere })
}

/// Whether a link is of the kernel's kind of links that a plugin makes. Tunnels of the container's programs are of the kind of tap devices.
fn is_of_kind(link: &Link, kind: &str) -> bool {
    link.kind.as_deref() == Some(kind) && (kind != "tun" || link.tap.is_some())
}

/// The link that was recorded, which the container may have renamed.
fn remove_recorded(recorded: &RecordedLink, host: &mut dyn Host) -> Result<ChildPlace, Error> {
    let is_it = |link: &Link| recorded.may_be(link) && is_of_kind(link, &recorded.kind);
    match host.link_by_index(Ns::Container, recorded.index)?.filter(is_it) {
        Some(link) => remove_found(link.index, host),
        None => Ok(ChildPlace::Inside),
    }
}

/// Removes a link of the container that was found, by its index: the container may rename it at any time. If it is missing by
/// now, the container has deleted it or moved it on.
pub fn remove_found(index: u32, host: &mut dyn Host) -> Result<ChildPlace, Error> {
    match host.apply(&Step::RemoveLinkByIndex { ns: Ns::Container, index }) {
        Ok(_) => Ok(ChildPlace::Inside),
        Err(error) => match host.link_by_index(Ns::Container, index)? {
            Some(_) => Err(error),
            None => Ok(ChildPlace::Elsewhere),
        },
    }
}

/// Removes the links of a plugin that attachments to the request's network have, but for the valid ones: their namespaces
/// may live. Returns the attachments that may still have a link; `None` if the attachments are unknown.
pub fn remove_invalid_children(
    kind: &'static str,
    request: &Request,
    valid: &ValidAttachments,
    removal: &mut Removal<'_>,
) -> Option<Vec<Attachment>> {
    let mut records = removal.attempt(|host| AttachmentRecord::all(host.ledger()))?;
    records.retain(|AttachmentRecord { at, .. }| {
        at.network == request.network && !valid.contains(at.container.as_str(), Some(at.ifname.as_str()))
    });
    records.retain(|record| removal.attempt(|host| remove_recorded_child(kind, record, request, host)).is_none());
    Some(records.into_iter().map(|record| record.at).collect())
}

/// Removes the recorded link. While its namespace lives, a link that is nowhere must not be in a namespace that was not
/// searched either: nobody calls again for an attachment that GC has removed.
fn remove_recorded_child(
    kind: &'static str,
    record: &AttachmentRecord,
    request: &Request,
    host: &mut dyn Host,
) -> Result<(), Error> {
    let expected = ExpectedLink::of(kind, record, request, host)?;
    let found = remove_numbered_child(kind, record, expected.as_ref(), host)?;
    let Some(expected) = expected.filter(|_| found == ChildPlace::Elsewhere) else { return Ok(()) };
    if expected.remove_elsewhere(host)? || record.life(host) == Life::Dead {
        return Ok(());
    }
    expected.require_all_searched(host)
}

/// Removes the recorded link from its namespace by the number of that. Returns whether it was there; an ADD that
/// has recorded no link has made none that is elsewhere.
fn remove_numbered_child(
    kind: &'static str,
    record: &AttachmentRecord,
    expected: Option<&ExpectedLink<'_>>,
    host: &mut dyn Host,
) -> Result<ChildPlace, Error> {
    let Some(number) = record.namespace.number else { return Ok(ChildPlace::Inside) };
    let Some(link) = &record.link else {
        return remove_unrecorded(kind, record, number.value, host).map(|()| ChildPlace::Inside);
    };
    if link.kind != kind || record.life(host) != Life::Alive {
        return Ok(ChildPlace::Elsewhere);
    }
    match host.namespaces().numbered_link(number.value, link.index)? {
        NumberedLink::Link(found) if link.may_be(&found) => {
            host.apply(&Step::RemoveNumberedLink { number: number.value, index: link.index })?;
            let is_it = expected.is_none_or(|expected| expected.is_certainly(&found));
            Ok(if is_it { ChildPlace::Inside } else { ChildPlace::Elsewhere })
        }
        NumberedLink::Link(_) | NumberedLink::NoLink | NumberedLink::NoNamespace => Ok(ChildPlace::Elsewhere),
    }
}

/// Removes the link of an ADD that was killed before it could record the link, by its names, unless it is, or may be, another network's.
/// A link that a plugin of others has made since is not recognised.
fn remove_unrecorded(
    kind: &'static str,
    record: &AttachmentRecord,
    number: i32,
    host: &mut dyn Host,
) -> Result<(), Error> {
    let AttachmentRecord { at, maker, namespace, .. } = record;
    match record.life(host) {
        Life::Alive if maker != LENDER => {}
        Life::Unknown(gaps) if maker != LENDER => return Err(not_searched(at, &gaps)),
        Life::Alive | Life::Dead | Life::Unknown(_) => return Ok(()),
    }
    let names = [at.ifname.clone(), temporary_name(&at.ifname)];
    let mut found = host.namespaces().numbered_links(number)?.unwrap_or_default();
    found.retain(|link| is_of_kind(link, kind) && names.iter().any(|name| name.as_str() == link.name));
    if found.is_empty() {
        return Ok(());
    }
    let mut others = AttachmentRecord::all_but(&[at], host.ledger())?;
    others.retain(|other| other.namespace.identity == namespace.identity);
    let may_have = |other: &AttachmentRecord, link: &Link| {
        other.link.as_ref().map_or(other.at.ifname == at.ifname, |own| own.may_be(link))
    };
    let is_anothers = |link: &Link| others.iter().any(|other| may_have(other, link));
    let mut removal = Removal::new(host);
    for link in found.iter().filter(|link| !is_anothers(link)) {
        if kind != "veth" || removal.attempt(|host| has_host_end(link, at, host)) == Some(true) {
            removal.step(&Step::RemoveNumberedLink { number, index: link.index });
        }
    }
    removal.finish()
}

/// Whether the other end of a container's veth is on the host, and may be the attachment's.
fn has_host_end(link: &Link, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let port = link.peer.map_or(Ok(None), |peer| host.link_by_index(Ns::Host, peer))?;
    let leads_back = |port: &Link| veth::is_veth(port) && port.peer == Some(link.index) && has_reference_name(port);
    Ok(port.is_some_and(|port| leads_back(&port) && LinkOwner::of(&port, at) != LinkOwner::Another))
}

/// Removes the veth of an attachment, by its host's end. If that was not found from inside the container, the veth
/// whose alias names the attachment is removed: the runtime may have lost the namespace, or the container may have
/// replaced its interface. If the host has no such veth, the one inside is removed if it may be one of the reference plugins.
///
/// # Errors
/// The first failure; the other links are removed all the same.
pub fn remove_veth(at: &Attachment, sandbox: &NamespaceContents, host: &mut dyn Host) -> Result<(), Error> {
    let ports = match &sandbox.veth {
        NamespaceVeth::Own(port) => vec![port.clone()],
        NamespaceVeth::None | NamespaceVeth::Unlabelled(_) => links_of(at, host)?,
    };
    if let (NamespaceVeth::Unlabelled(index), []) = (&sandbox.veth, &ports[..]) {
        return remove_found(*index, host).map(drop);
    }
    let mut removal = Removal::new(host);
    ports.into_iter().for_each(|name| removal.step(&Step::RemoveLink { ns: Ns::Host, name }));
    removal.finish()
}

/// The veths of the host whose alias names the attachment. A listing may be older than the last change of an alias.
fn links_of(at: &Attachment, host: &mut dyn Host) -> Result<Vec<IfName>, Error> {
    let mut own = Vec::new();
    for listed in host.links(Ns::Host, LinkQuery::Kind("veth"))? {
        if LinkOwner::of(&listed, at) == LinkOwner::This
            && let Some(link) = host.link_by_index(Ns::Host, listed.index)?
            && LinkOwner::of(&link, at) == LinkOwner::This
        {
            own.push(IfName::parse(&link.name)?);
        }
    }
    Ok(own)
}

/// Removes the veths that attachments to the request's network have, but for the valid ones: by their aliases, and those of killed ADDs by
/// the records. Returns the attachments that may still have one; `None` if they are unknown.
pub fn remove_invalid_veths(
    request: &Request,
    valid: &ValidAttachments,
    removal: &mut Removal<'_>,
) -> Option<Vec<Attachment>> {
    let stale = removal.attempt(|host| {
        let mut removal = Removal::new(host);
        for link in removal.attempt(|host| stale_links(&request.network, valid, host)).unwrap_or_default() {
            removal.attempt(|host| host.apply(&Step::RemoveLink { ns: Ns::Host, name: IfName::parse(&link.name)? }));
        }
        removal.finish()
    });
    remove_invalid_children("veth", request, valid, removal).filter(|_| stale.is_some())
}

/// The links on the host whose alias names an attachment of the network that is not valid.
fn stale_links(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<Vec<Link>, Error> {
    let kept: Vec<Attachment> = valid.of_network(network).collect();
    let mut links = host.links(Ns::Host, LinkQuery::Kind("veth"))?;
    links.retain(|link| link.alias.as_ref().is_some_and(|alias| alias::is_stale(alias, network, &kept)));
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::has_reference_name;
    use cni_model::link::Link;

    #[test]
    fn veths_of_other_projects_have_other_names_than_those_of_the_reference() {
        let has_name = |name: &str| has_reference_name(&Link { name: name.to_owned(), ..Link::default() });
        assert!(has_name("veth0a1b2c3d"));
        // Calico, Amazon's, Cilium, Azure's, Weave, OVN-Kubernetes, Docker, Antrea, Kuryr, Terway, and others.
        for name in [
            "cali0123456789a",
            "eni0123456789a",
            "lxc0123456789ab",
            "azv0123456789a",
            "vethwepl1234567",
            "0123456789abcde",
            "veth1234567",
            "coredns--1a2b3c",
            "tap01234567-89",
            "veth0123456789a",
            "vethXYZ12345",
            "vethABCDEF01",
            "veth+1234567",
        ] {
            assert!(!has_name(name), "{name}");
        }
    }
}
