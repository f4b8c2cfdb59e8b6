//! Changes, moves and removes links.

use std::os::fd::AsFd;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::IfName;
use cni_kernel::netlink::{NetlinkError, Socket};
use cni_model::link::Link;
use cni_model::netns::NumberedLink;
use cni_model::plan::{LinkMove, LinkSetting, Ns, Step};

use super::answer::{accept_absent, index, no_link, refused};
use crate::machine::LinuxHost;

/// Sets a property; returns the step that sets it back.
pub(super) fn set(host: &mut LinuxHost, ns: Ns, name: &IfName, setting: &LinkSetting) -> Result<Option<Step>, Error> {
    let Some(before) = host.socket(ns)?.link(name.as_str())? else {
        let is_done = matches!(setting, LinkSetting::Down | LinkSetting::NoMaster);
        return if is_done { Ok(None) } else { Err(no_link(ns, name.as_str())) };
    };
    // Asked first: after the change, a failed answer would leave nothing that undoes it.
    let master = former_master(host.socket(ns)?, &before, setting)?;
    let undo = setting.undo(&before, master.as_ref());
    if let Err(error) = change(host, ns, &before, setting) {
        return Err(restore_if_changed(host, ns, &before, (setting, undo), error));
    }
    Ok(undo.map(|setting| Step::SetLink { ns, name: name.clone(), setting }))
}

fn change(host: &mut LinuxHost, ns: Ns, link: &Link, setting: &LinkSetting) -> Result<(), Error> {
    if let LinkSetting::Master(bridge) = setting {
        let master = index(host, ns, bridge)?;
        let attached = host.socket(ns)?.set_master(link.index, master);
        return attached
            .map_err(|source| refused(source, format!("failed to connect {:?} to bridge {bridge}", link.name)));
    }
    let (socket, index) = (host.socket(ns)?, link.index);
    Ok(match setting {
        LinkSetting::Up => socket.set_link_up(index),
        LinkSetting::Down => accept_absent(socket.set_link_down(index)),
        LinkSetting::Mac(mac) => socket.set_mac(index, mac),
        LinkSetting::Mtu(mtu) => socket.set_mtu(index, *mtu),
        LinkSetting::Alias(text) => socket.set_alias(index, text),
        LinkSetting::Promisc(on) => socket.set_promisc(index, *on),
        LinkSetting::AllMulticast(on) => socket.set_all_multicast(index, *on),
        LinkSetting::TxQueueLength(packets) => socket.set_tx_queue_length(index, *packets),
        LinkSetting::Master(_) => Ok(()),
        LinkSetting::NoMaster => accept_absent(socket.clear_master(index)),
        LinkSetting::Port(port) => socket.set_bridge_port(index, *port),
    }?)
}

/// Restores a property if it was changed although the kernel's answer was lost.
fn restore_if_changed(
    host: &mut LinuxHost,
    ns: Ns,
    before: &Link,
    (setting, undo): (&LinkSetting, Option<LinkSetting>),
    error: Error,
) -> Error {
    let is_kept =
        matches!(setting, LinkSetting::Up | LinkSetting::Alias(_) | LinkSetting::Master(_) | LinkSetting::Port(_));
    let now = host.socket(ns).ok().and_then(|socket| socket.link_by_index(before.index).ok().flatten());
    let has_value = now.is_some_and(|now| setting.undo(&now, None).is_none());
    match undo.filter(|_| !is_kept && has_value).map(|undo| change(host, ns, before, &undo)) {
        Some(Err(failed)) => error.with_note(format!("and it could not be set back: {}", failed.in_full())),
        Some(Ok(())) | None => error,
    }
}

/// The bridge that a link was a port of, where the setting changes that. `None` as well if this program cannot write its name:
/// a container gives its links any, and DEL must not fail for that.
fn former_master(socket: &mut Socket, before: &Link, setting: &LinkSetting) -> Result<Option<IfName>, Error> {
    let changed = matches!(setting, LinkSetting::Master(_) | LinkSetting::NoMaster);
    match before.master.filter(|_| changed) {
        Some(index) => Ok(socket.link_by_index(index)?.and_then(|link| IfName::parse(&link.name).ok())),
        None => Ok(None),
    }
}

/// Moves a link; returns the step that moves it back. The new name is looked for first, since the kernel would move the
/// link under its old name before it finds that out.
pub(super) fn move_to(host: &mut LinuxHost, moved: &LinkMove) -> Result<Step, Error> {
    let LinkMove { from, index, name, to, new_name, alias } = moved;
    let link = host.socket(*from)?.link_by_index(*index)?;
    let link = link.ok_or_else(|| no_link(*from, name))?;
    let is_itself = from == to && link.name == new_name.as_str();
    if let Some(found) = host.socket(*to)?.link(new_name.as_str())?.filter(|_| !is_itself) {
        let (new_name, kind) =
            (new_name.as_str(), found.kind.map_or_else(String::new, |kind| format!(" of kind {kind}")));
        return Err(fail!(
            Conflict,
            "failed to move {name:?} to the {to} namespace as {new_name:?}: file exists",
            details: "the {to} namespace has a link{kind} of this name already"
        ));
    }
    let (socket, netns) = host.socket_and_netns(*from, (from != to).then_some(*to))?;
    match socket.move_link(*index, netns.as_deref().map(AsFd::as_fd), new_name, alias) {
        Ok(()) => {
            // The kernel gives it another index if its own is taken there.
            let found = host.socket(*to).ok().and_then(|socket| socket.link(new_name.as_str()).ok().flatten());
            Ok(Step::MoveLink(way_back(moved, &link, found.map_or(*index, |link| link.index))))
        }
        Err(source) => Err(move_refusal(host, moved, &link, source)),
    }
}

/// The way back, under the former name if this program can write it.
fn way_back(moved: &LinkMove, before: &Link, index: u32) -> LinkMove {
    let LinkMove { from, to, new_name, .. } = moved.clone();
    let former = IfName::parse(&before.name).unwrap_or_else(|_| new_name.clone());
    let alias = before.alias.clone().unwrap_or_default();
    LinkMove { from: to, index, name: new_name.to_string(), to: from, new_name: former, alias }
}

/// The error for a move that failed. The kernel may have moved the link all the same: if it could not rename it there,
/// or if its answer was lost.
fn move_refusal(host: &mut LinuxHost, moved: &LinkMove, before: &Link, source: NetlinkError) -> Error {
    let LinkMove { from, index, name, to, new_name, alias: _ } = moved;
    let (from, to) = (*from, *to);
    let text = format!("failed to move {name:?} to the {to} namespace as {:?}", new_name.as_str());
    let error = refused(source, text);
    let is_gone = from != to && matches!(host.socket(from).map(|socket| socket.link_by_index(*index)), Ok(Ok(None)));
    let there = if is_gone { find_moved(host, to, new_name, before) } else { None };
    let Some(index) = there else { return error };
    match move_to(host, &way_back(moved, before, index)) {
        Ok(_) => error,
        Err(failed) => error.with_note(format!("and it could not be moved back: {}", failed.in_full())),
    }
}

/// Finds a moved link. The new name was free, and the kernel uses it as well if the old one is another link's there.
fn find_moved(host: &mut LinuxHost, ns: Ns, new_name: &IfName, before: &Link) -> Option<u32> {
    let links = host.socket(ns).ok()?.links().ok()?;
    let is_it = |link: &&Link| link.kind == before.kind && link.mac == before.mac;
    let named = |name: &str| links.iter().filter(is_it).find(|link| link.name == name);
    named(new_name.as_str()).or_else(|| named(&before.name)).map(|link| link.index)
}

/// Removes the link of a name, if it exists.
pub(super) fn remove(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    if let Some(link) = socket.link(name.as_str())? {
        accept_absent(socket.delete_link(link.index))?;
    }
    Ok(())
}

/// Removes the link of an index, which must exist, and looks for it again: DEL must not release an address that a link
/// still has.
pub(super) fn remove_by_index(host: &mut LinuxHost, ns: Ns, index: u32) -> Result<(), Error> {
    let socket = host.socket(ns)?;
    socket.delete_link(index)?;
    match socket.link_by_index(index)? {
        // The kernel has accepted the removal.
        Some(_) => Err(fail!(TryAgain, "link {index} of the {ns} namespace exists after its removal")),
        None => Ok(()),
    }
}

/// Removes the link of an index from the namespace of a number, if both exist.
pub(super) fn remove_numbered(host: &mut LinuxHost, number: i32, index: u32) -> Result<(), Error> {
    let socket = host.socket(Ns::Host)?;
    socket.delete_numbered_link(number, index)?;
    match socket.numbered_link(number, index)? {
        NumberedLink::Link(_) => {
            let place = format!("the network namespace with number {number}");
            Err(fail!(TryAgain, "link {index} of {place} exists after its removal"))
        }
        NumberedLink::NoLink | NumberedLink::NoNamespace => Ok(()),
    }
}
