//! Creates a link on a master inside the container.
//!
//! The request goes to the master's namespace and names the other one, so the link is never moved. It is created with
//! its final name, unless the kernel also looks for that name in the master's namespace: Linux 6.1 does, 6.18 does
//! not.

mod error;

use std::os::fd::AsFd;

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, MasterLink, NewLink, Ns, temporary_name};

use super::made::accept_absent;
use crate::machine::LinuxHost;
use cni_kernel::netlink::NetlinkError;
use error::{ChildError, hint};

/// The link to create, and where.
pub(super) struct ChildRequest<'a> {
    /// The namespace of the link.
    pub ns: Ns,
    /// The properties that every link has.
    pub link: &'a NewLink,
    /// Its master.
    pub master: &'a MasterLink,
    /// The kind of the link.
    pub kind: &'a ChildKind,
}

/// Makes a child of a master; nothing of it is left when that fails.
pub(super) fn create(host: &mut LinuxHost, new: &ChildRequest<'_>) -> Result<(), Error> {
    if let ChildKind::Ipvlan { .. } = new.kind {
        number_netns(host, new)?;
    }
    match attempt(host, new, &new.link.name)? {
        Ok(()) => Ok(()),
        Err(refused) if refused.errno() == Some(libc::EEXIST) => create_and_rename(host, new),
        Err(refused) => Err(refusal(host, new, &new.link.name, refused)),
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
        return Err(refusal(host, new, &first, refused));
    }
    let renamed = rename(host, new, &first);
    renamed.map_err(|error| without_left_over(host, new, &first, error))
}

fn attempt(host: &mut LinuxHost, new: &ChildRequest<'_>, name: &IfName) -> Result<Result<(), NetlinkError>, Error> {
    let link = NewLink { name: name.clone(), ..new.link.clone() };
    let (socket, netns) = host.socket_and_netns(new.master.ns, Some(new.ns))?;
    Ok(socket.create_link(&link, netns.as_deref().map(AsFd::as_fd)))
}

fn rename(host: &mut LinuxHost, new: &ChildRequest<'_>, first: &IfName) -> Result<(), Error> {
    let index = super::look_up::index(host, new.ns, first)?;
    let (kind, name) = (new.kind.name(), &new.link.name);
    let renamed = host.socket(new.ns)?.set_name(index, name);
    Ok(renamed.map_err(|source| ChildError::Rename { kind, name: name.clone(), source })?)
}

fn refusal(host: &mut LinuxHost, new: &ChildRequest<'_>, name: &IfName, source: NetlinkError) -> Error {
    let kind = new.kind.name();
    let is_unknown = source.errno() == Some(libc::EOPNOTSUPP)
        && host.socket(Ns::Host).is_ok_and(|socket| socket.has_link_kind(kind) == Ok(false));
    let hint = hint(new.kind, new.master, source.errno());
    let error =
        if is_unknown { ChildError::UnknownKind { kind, source } } else { ChildError::Refused { kind, hint, source } };
    without_left_over(host, new, name, error.into())
}

/// Removes the link if it was created although the kernel's answer was lost. The caller has verified that the name was
/// free.
fn without_left_over(host: &mut LinuxHost, new: &ChildRequest<'_>, name: &IfName, error: Error) -> Error {
    let Ok(socket) = host.socket(new.ns) else { return error };
    let is_ours = |found: &Link| {
        let same_mac = new.link.mac.is_none() || found.mac == new.link.mac;
        same_mac && found.kind.as_deref() == Some(new.kind.name()) && found.peer == Some(new.master.index)
    };
    let ours = socket.link(name.as_str()).ok().flatten().filter(is_ours);
    match ours.map(|link| accept_absent(socket.delete_link(link.index))) {
        Some(Err(failed)) => error.with_note(format!("and the new link could not be removed: {failed}")),
        Some(Ok(())) | None => error,
    }
}
