//! Answers questions about links, namespaces, traffic and devices.

use std::os::fd::AsFd;
use std::path::Path;
use std::{fs, io};

use cni_core::error::Error;
use cni_files::FileError;
use cni_kernel::netlink::{FilterPlace, FilterSlot, NetlinkError, Socket};
use cni_model::link::{Link, OtherEnd};
use cni_model::netns::{NamespaceNumber, NumberedLink};
use cni_model::plan::Ns;
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_plugin::host::LinkQuery;

use crate::machine::LinuxHost;

/// The links that a question is about.
pub(crate) fn links(host: &mut LinuxHost, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
    let socket = host.socket(ns)?;
    Ok(match query {
        LinkQuery::Name(name) => socket.link(name.as_str())?.into_iter().collect(),
        LinkQuery::Called(name) => socket.link_called(name)?.into_iter().collect(),
        LinkQuery::Index(index) => socket.link_by_index(index)?.into_iter().collect(),
        LinkQuery::All => socket.links()?,
        LinkQuery::Kind(kind) => host.links_of_kind(ns, kind)?,
        LinkQuery::Towards(address) => {
            let index = socket.route_to(address)?;
            by_index(socket, index)?
        }
        LinkQuery::RouteTo(address) => {
            let index = socket.exact_route(address)?.and_then(|route| route.links.first().copied());
            by_index(socket, index)?
        }
        LinkQuery::ChildOf { master, kind } => child_of(host, ns, master, kind)?.into_iter().collect(),
        LinkQuery::PeerOf(link) => peer_of(host, link, ns)?.into_iter().collect(),
    })
}

fn by_index(socket: &mut Socket, index: Option<u32>) -> Result<Vec<Link>, NetlinkError> {
    let found = index.map(|index| socket.link_by_index(index)).transpose()?;
    Ok(found.flatten().into_iter().collect())
}

/// The other end of a veth, if it is in `ns`: only the namespace of the link can say so, by its number for `ns`.
fn peer_of(host: &mut LinuxHost, link: &Link, ns: Ns) -> Result<Option<Link>, Error> {
    let other = match ns {
        Ns::Host => Ns::Container,
        Ns::Container => Ns::Host,
    };
    let (socket, netns) = host.socket_and_netns(other, Some(ns))?;
    let (Some(index), Some(netns)) = (link.peer, netns) else { return Ok(None) };
    let leads_there = link.peer_netns.is_some() && socket.netns_id(netns.as_fd())? == link.peer_netns;
    Ok(if leads_there { host.socket(ns)?.link_by_index(index)? } else { None })
}

/// A link of a kind on a master: in the master's namespace, or in a namespace that has a number there.
fn child_of(host: &mut LinuxHost, ns: Ns, master: u32, kind: &'static str) -> Result<Option<Link>, Error> {
    let (socket, own) = host.socket_and_netns(ns, Some(ns))?;
    let here = socket.links_of_kind(kind)?;
    let beside = |link: &Link| link.peer == Some(master) && link.peer_netns.is_none();
    match (here.into_iter().find(beside), own) {
        (None, Some(own)) => Ok(socket.child_elsewhere(master, kind, own.as_fd())?),
        (found, _) => Ok(found),
    }
}

/// The other end of a link, in the numbers of the host.
pub(crate) fn other_end(host: &mut LinuxHost, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error> {
    match ns {
        Ns::Host => {
            let leads_on = link.peer.is_some() || link.peer_netns.is_some();
            Ok(leads_on.then_some(OtherEnd { index: link.peer, netns: link.peer_netns }))
        }
        Ns::Container => other_end_of_contained(host, link),
    }
}

/// Asks the host about a link of the container, so that the answer has the host's numbers of namespaces.
fn other_end_of_contained(host: &mut LinuxHost, link: &Link) -> Result<Option<OtherEnd>, Error> {
    let Some(number) = container_number(host, link)? else { return Ok(None) };
    let (socket, host_netns) = host.socket_and_netns(Ns::Host, Some(Ns::Host))?;
    let NumberedLink::Link(seen) = socket.numbered_link(number, link.index)? else { return Ok(None) };
    // The answer has given the host's own namespace its number.
    let own = host_netns.map(|netns| socket.netns_id(netns.as_fd())).transpose()?.flatten();
    // A kernel before Linux 4.15 does not read the number, and answers about the host's link of the index.
    let is_same = (&seen.name, &seen.kind, &seen.mac) == (&link.name, &link.kind, &link.mac);
    let leads_out = is_same && seen.peer_netns.is_some();
    Ok(leads_out.then(|| OtherEnd { index: seen.peer, netns: seen.peer_netns.filter(|id| Some(*id) != own) }))
}

/// The number of the container's namespace; `None` when the link does not lead out of it.
fn container_number(host: &mut LinuxHost, link: &Link) -> Result<Option<i32>, Error> {
    if link.peer_netns.is_none() {
        return Ok(None);
    }
    if let Some(number) = number_container(host)? {
        return Ok(Some(number.value));
    }
    let (socket, netns) = host.socket_and_netns(Ns::Host, Some(Ns::Container))?;
    let Some(netns) = netns else { return Ok(None) };
    socket.number_netns(netns.as_fd())?;
    Ok(socket.netns_id(netns.as_fd())?)
}

/// Gives the container's namespace a number in the host's, unless it has one.
pub(crate) fn number_container(host: &mut LinuxHost) -> Result<Option<NamespaceNumber>, Error> {
    if let number @ Some(_) = host.side(Ns::Container)?.number {
        return Ok(number);
    }
    let cookie = host.socket(Ns::Container)?.netns_cookie()?;
    let (socket, netns) = host.socket_and_netns(Ns::Host, Some(Ns::Container))?;
    let (Some(cookie), Some(netns)) = (cookie, netns) else { return Ok(None) };
    let wanted = number_of(cookie);
    let given = socket.ensure_number(netns.as_fd(), wanted)?;
    let number = given.map(|value| NamespaceNumber { value, is_unique: value == wanted });
    host.side(Ns::Container)?.number = number;
    Ok(number)
}

/// The number that a namespace gets by its cookie. The kernel assigns cookies in order, and chooses small numbers
/// itself, so no other namespace of this boot gets it before 2^30 namespaces have been made.
fn number_of(cookie: u64) -> i32 {
    const LOW: u64 = 0x3fff_ffff;
    const FIRST: i32 = 0x4000_0000;
    FIRST | i32::try_from(cookie & LOW).unwrap_or_default()
}

/// The traffic control of a link.
pub(crate) fn traffic_control(socket: &mut Socket, link: u32) -> Result<TrafficControl, NetlinkError> {
    let filters = match socket.filter_place(link)? {
        Some(_) => socket.receive_filters(link)?,
        None => Vec::new(),
    };
    let redirects = filters.iter().filter_map(|filter| filter.redirect).collect();
    Ok(TrafficControl { root: socket.root_qdisc(link)?, redirects })
}

/// Tries what a redirect needs, on the loopback interface of a new namespace.
pub(crate) fn missing_part(socket: &mut Socket) -> Option<RedirectPart> {
    const LOOPBACK: u32 = 1;
    if socket.add_filter_place(LOOPBACK).is_err() {
        return Some(RedirectPart::Ingress);
    }
    if socket.add_plain_filter(LOOPBACK).is_err() {
        return Some(RedirectPart::U32);
    }
    let redirected = socket
        .receive_filters(LOOPBACK)
        .and_then(|others| socket.add_redirect(LOOPBACK, (FilterPlace::Ingress, FilterSlot::Last), &others, LOOPBACK));
    redirected.err().map(|_| RedirectPart::Mirred)
}

/// The names in a directory of `/sys`.
pub(crate) fn entries(directory: &Path) -> Result<Option<Vec<String>>, Error> {
    let listed = fs::read_dir(directory).and_then(|entries| {
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<Vec<String>>>()
    });
    let mut names = absent_as_none(listed).map_err(FileError::of("read", directory))?;
    names.iter_mut().for_each(|names| names.sort());
    Ok(names)
}

/// The last part of where a link leads.
pub(crate) fn leads_to(link: &Path) -> Result<Option<String>, Error> {
    let target = absent_as_none(fs::read_link(link)).map_err(FileError::of("read", link))?;
    let last = target.as_deref().and_then(Path::file_name);
    Ok(last.map(|name| name.to_string_lossy().into_owned()))
}

fn absent_as_none<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}
