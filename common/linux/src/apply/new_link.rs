//! Creates links.

use std::error::Error as _;
use std::io;
use std::os::fd::AsFd;

use cni_core::error::{Code, Error, Failure as _};
use cni_core::fail;
use cni_core::names::IfName;
use cni_kernel::netlink::{Errno, NetlinkError, Socket};
use cni_kernel::tun::NewTap;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, IfPresent, LinkKind, MasterLink, NewLink, Ns, Step, temporary_name};

use super::answer::{Creation, accept_absent, created, index};
use super::vlan;
use crate::machine::LinuxHost;

/// Makes a link; returns the step that undoes it if the link did not exist before.
pub(super) fn create(host: &mut LinuxHost, ns: Ns, link: &NewLink) -> Result<Option<Step>, Error> {
    let undo = Step::RemoveLink { ns, name: link.name.clone() };
    if let LinkKind::Child { master, kind } = &link.kind {
        create_child(host, &ChildRequest { ns, link, master, kind })?;
        return Ok(Some(undo));
    }
    if let LinkKind::Tap { .. } = link.kind {
        create_tap(host, ns, link)?;
        return Ok(Some(undo));
    }
    let peer = if let LinkKind::Veth { peer } = &link.kind { Some(peer.ns) } else { None };
    let (socket, netns) = host.socket_and_netns(ns, peer)?;
    let made = socket.create_link(link, netns.as_deref().map(AsFd::as_fd));
    match created(made, link.if_present) {
        Ok(Creation::Now) => {
            settle_mac(socket, link)?;
            Ok(Some(undo))
        }
        Ok(Creation::Earlier) => Ok(None),
        Err(source) => Err(refusal(socket, link, source)),
    }
}

/// Sets the MAC address that a new bridge already has, so that it keeps it when ports are added and removed. Another
/// address, even in the request that creates it, would end its carrier until a port is up (`br_stp_change_bridge_id` in
/// `net/bridge/br_stp_if.c`), and its link-local address with it.
fn settle_mac(socket: &mut Socket, link: &NewLink) -> Result<(), Error> {
    let (LinkKind::Bridge { .. }, None) = (&link.kind, &link.mac) else { return Ok(()) };
    if let Some(Link { index, mac: Some(mac), .. }) = socket.link(link.name.as_str())? {
        socket.set_mac(index, &mac)?;
    }
    Ok(())
}

/// The error for a link that the kernel has refused to make.
fn refusal(socket: &mut Socket, link: &NewLink, source: NetlinkError) -> Error {
    let NewLink { name, if_present, kind, .. } = link;
    let is_taken = source.errno() == Some(libc::EEXIST);
    if let LinkKind::Veth { peer } = kind
        && is_taken
    {
        let (name, peer, details) = (name.as_str(), peer.name.as_str(), Error::from(source).in_full());
        fail!(Conflict, "container veth name ({name:?}) peer provided ({peer:?}) already exists", details: "{details}")
    } else if let LinkKind::Bridge { vlan_filtering: true } = kind {
        vlan::without_filtering(name, &source).unwrap_or_else(|| source.into())
    } else if source.errno() == Some(libc::EOPNOTSUPP) {
        unknown_kind(kind.name(), &Error::from(source).in_full())
    } else if *if_present == IfPresent::Refuse && !is_taken {
        // A link with the random address that was chosen for it is ours, and so is a VRF with the chosen table.
        let has_table = |found: &Link| matches!(link.kind, LinkKind::Vrf { table } if found.vrf_table == Some(table));
        let is_ours = |found: &Link| (link.mac.is_some() && found.mac == link.mac) || has_table(found);
        removed_if_ours(socket, name, is_ours, source.into())
    } else {
        source.into()
    }
}

fn unknown_kind(kind: &str, details: &str) -> Error {
    let missing = format!("this kernel has no links of kind {kind}, load its module");
    fail!(UnsupportedField, "failed to create {kind}: operation not supported: {missing}", details: "{details}")
}

/// Removes the link if it was created although the kernel's answer was lost: the name was free a moment ago.
fn removed_if_ours(socket: &mut Socket, name: &IfName, is_ours: impl Fn(&Link) -> bool, error: Error) -> Error {
    match socket.link(name.as_str()).ok().flatten().filter(is_ours) {
        Some(link) => removed(socket, link.index, error),
        None => error,
    }
}

/// Removes a link that has failed, and says so in its error if that fails too.
fn removed(socket: &mut Socket, index: u32, error: Error) -> Error {
    match accept_absent(socket.delete_link(index)) {
        Err(failed) => error.with_note(format!("and the new link could not be removed: {failed}")),
        Ok(()) => error,
    }
}

/// A link to create on a master inside the container.
struct ChildRequest<'a> {
    /// The namespace of the link.
    ns: Ns,
    /// The properties that every link has.
    link: &'a NewLink,
    master: &'a MasterLink,
    kind: &'a ChildKind,
}

/// Makes a child of a master; nothing of it is left when that fails.
///
/// The request goes to the master's namespace and names the other one, so the link is never moved. It is created with
/// its final name, unless the kernel also looks for that name in the master's namespace: Linux 6.1 does, 6.18 does
/// not.
fn create_child(host: &mut LinuxHost, new: &ChildRequest<'_>) -> Result<(), Error> {
    if let ChildKind::Ipvlan { .. } = new.kind {
        number_netns(host, new)?;
    }
    match attempt(host, new, &new.link.name)? {
        Ok(()) => Ok(()),
        Err(refused) if refused.errno() == Some(libc::EEXIST) => create_and_rename(host, new),
        Err(refused) => Err(child_refusal(host, new, &new.link.name, refused)),
    }
}

/// Gives the namespace a number, so that a plugin that makes another ipvlan on the master sees this one and its mode. The
/// number is removed with the namespace.
fn number_netns(host: &mut LinuxHost, new: &ChildRequest<'_>) -> Result<(), Error> {
    match host.socket_and_netns(new.master.ns, Some(new.ns))? {
        (socket, Some(netns)) if new.master.ns != new.ns => Ok(socket.number_netns(netns.as_fd())?),
        _ => Ok(()),
    }
}

fn create_and_rename(host: &mut LinuxHost, new: &ChildRequest<'_>) -> Result<(), Error> {
    let first = temporary_name(&new.link.name);
    if let Err(refused) = attempt(host, new, &first)? {
        return Err(child_refusal(host, new, &first, refused));
    }
    let index = index(host, new.ns, &first).map_err(|error| without_left_over(host, new, &first, error))?;
    let (kind, name, socket) = (new.kind.name(), new.link.name.as_str(), host.socket(new.ns)?);
    // It may have either name if the kernel's answer was lost.
    socket.set_name(index, &new.link.name).map_err(|source| {
        let text = format!("failed to rename {kind} to {name:?}: {}", source.cause());
        removed(socket, index, Error::stated(code_of_child(&source), text, source.details()))
    })
}

fn attempt(host: &mut LinuxHost, new: &ChildRequest<'_>, name: &IfName) -> Result<Result<(), NetlinkError>, Error> {
    let link = NewLink { name: name.clone(), ..new.link.clone() };
    let (socket, netns) = host.socket_and_netns(new.master.ns, Some(new.ns))?;
    Ok(socket.create_link(&link, netns.as_deref().map(AsFd::as_fd)))
}

fn child_refusal(host: &mut LinuxHost, new: &ChildRequest<'_>, name: &IfName, source: NetlinkError) -> Error {
    let kind = new.kind.name();
    let is_unknown = source.errno() == Some(libc::EOPNOTSUPP)
        && host.socket(Ns::Host).is_ok_and(|socket| socket.has_link_kind(kind) == Ok(false));
    let error = if is_unknown {
        unknown_kind(kind, &source.details())
    } else {
        let kernel = source.cause().source().map(ToString::to_string);
        let details = hint(new.kind, new.master, source.errno()).into_iter().chain(kernel).collect::<Vec<_>>();
        let text = format!("failed to create {kind}: {}", source.cause());
        Error::stated(code_of_child(&source), text, details.join("; "))
    };
    without_left_over(host, new, name, error)
}

fn code_of_child(source: &NetlinkError) -> Code {
    match source.errno() {
        Some(libc::EEXIST | libc::EBUSY) => Code::Conflict,
        Some(_) | None => source.code(),
    }
}

/// The likely cause, by the kernel's error number.
fn hint(kind: &ChildKind, master: &MasterLink, errno: Option<i32>) -> Option<String> {
    let master = &master.name;
    match (kind, errno?) {
        (_, libc::ENODEV) => Some(format!("{master} is gone")),
        (ChildKind::Macvlan { .. }, libc::EBUSY) => {
            Some(format!("{master} is a port of a bridge, bond or the like, or has links of kind ipvlan"))
        }
        (ChildKind::Ipvlan { .. }, libc::EBUSY) => {
            Some(format!("{master} is a port of a bridge, bond or the like, or has links of kind macvlan"))
        }
        (ChildKind::Vlan { id }, libc::EEXIST) => Some(format!(
            "VLAN {id} of {master} has a link already, which may be another container's, and can have one alone"
        )),
        (ChildKind::Macvlan { .. }, libc::EINVAL) => Some(format!(
            "{master} has a link in mode passthru, which must be its only one, or is no Ethernet link, or the MTU is too small"
        )),
        _ => None,
    }
}

fn without_left_over(host: &mut LinuxHost, new: &ChildRequest<'_>, name: &IfName, error: Error) -> Error {
    let is_ours = |found: &Link| {
        let same_mac = new.link.mac.is_none() || found.mac == new.link.mac;
        same_mac && found.kind.as_deref() == Some(new.kind.name()) && found.peer == Some(new.master.index)
    };
    match host.socket(new.ns) {
        Ok(socket) => removed_if_ours(socket, name, is_ours, error),
        Err(_) => error,
    }
}

/// Makes a tap device inside the container. It is made persistent last, so nothing is left of one that fails before.
fn create_tap(host: &mut LinuxHost, ns: Ns, link: &NewLink) -> Result<(), Error> {
    let NewLink { name, mac, mtu, kind: LinkKind::Tap { tap, label, headers, alias }, .. } = link else {
        return Ok(());
    };
    let made = host.side(ns)?.within(|| NewTap::make(name, *tap, *headers, label.as_deref()));
    let new = made.map_err(|source| match label {
        None => tap_refusal(&source),
        Some(label) => {
            let plain = plain(&source);
            fail!(
                Kernel,
                "failed to create tap under SELinux label {label:?}: {plain}",
                details: "selinuxContext needs a host with SELinux, and a label that it has"
            )
        }
    })?;
    let index = index(host, ns, name)?;
    let socket = host.socket(ns)?;
    mac.as_ref().map_or(Ok(()), |mac| socket.set_mac(index, mac))?;
    mtu.map_or(Ok(()), |mtu| socket.set_mtu(index, mtu))?;
    alias.as_ref().map_or(Ok(()), |alias| socket.set_alias(index, alias))?;
    new.keep().map_err(|source| tap_refusal(&source))
}

/// The driver is missing, or refuses.
fn tap_refusal(source: &io::Error) -> Error {
    let code = match source.raw_os_error() {
        Some(libc::EBUSY) => Code::Conflict,
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Code::UnsupportedField,
        Some(_) | None => Code::Kernel,
    };
    let details = match source.source() {
        _ if source.kind() == io::ErrorKind::NotFound => "/dev/net/tun does not exist: load the module tun".to_owned(),
        cause => cause.map(ToString::to_string).unwrap_or_default(),
    };
    Error::stated(code, format!("failed to create tap: {}", plain(source)), details)
}

fn plain(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |number| Errno::new(number).to_string())
}
