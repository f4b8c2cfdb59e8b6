//! Moves a link to another namespace.

use std::os::fd::AsFd;

use cni_core::error::{Code, Error, Failure};
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::{LinkMove, Ns, Step};

use crate::machine::{HostError, LinuxHost};
use cni_kernel::netlink::NetlinkError;

/// Refusals for which the reference has texts of its own.
#[derive(Debug, thiserror::Error)]
enum MoveError {
    /// The name is taken where the link is to go. Nothing was touched.
    #[error("failed to move {name:?} to the {to} namespace as {new_name:?}: file exists")]
    Taken { name: String, to: Ns, new_name: String, found: Option<String> },
    /// The kernel does not move it.
    #[error("failed to move {name:?} to the {to} namespace as {new_name:?}")]
    Refused {
        name: String,
        to: Ns,
        new_name: String,
        #[source]
        source: NetlinkError,
    },
}

impl Failure for MoveError {
    fn code(&self) -> Code {
        match self {
            Self::Taken { .. } => Code::Conflict,
            Self::Refused { source, .. } => source.code(),
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Taken { to, found, .. } => {
                let kind = found.as_deref().map_or_else(String::new, |kind| format!(" of kind {kind}"));
                format!("the {to} namespace has a link{kind} of this name already")
            }
            Self::Refused { source, .. } => format!("{source}: {}", source.details()),
        }
    }
}

/// Moves a link; returns the step that moves it back. The new name is looked for first, since the kernel would move the
/// link under its old name before it finds that out.
pub(super) fn carry_out(host: &mut LinuxHost, moved: &LinkMove) -> Result<Step, Error> {
    let LinkMove { from, index, name, to, new_name, alias } = moved;
    let link = host.socket(*from)?.link_by_index(*index)?;
    let link = link.ok_or_else(|| HostError::NoLink { ns: *from, name: name.clone() })?;
    let is_itself = from == to && link.name == new_name.as_str();
    if let Some(found) = host.socket(*to)?.link(new_name.as_str())?.filter(|_| !is_itself) {
        let (name, new_name) = (name.clone(), new_name.to_string());
        return Err(MoveError::Taken { name, to: *to, new_name, found: found.kind }.into());
    }
    let (socket, netns) = host.socket_and_netns(*from, (from != to).then_some(*to))?;
    match socket.move_link(*index, netns.as_deref().map(AsFd::as_fd), new_name, alias) {
        Ok(()) => Ok(Step::MoveLink(way_back(moved, &link, index_there(host, moved)))),
        Err(source) => Err(refusal(host, moved, &link, source)),
    }
}

/// The index of a moved link. The kernel gives it another one if the index is taken there.
fn index_there(host: &mut LinuxHost, moved: &LinkMove) -> u32 {
    let LinkMove { index, to, new_name, .. } = moved;
    let found = host.socket(*to).ok().and_then(|socket| socket.link(new_name.as_str()).ok().flatten());
    found.map_or(*index, |link| link.index)
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
fn refusal(host: &mut LinuxHost, moved: &LinkMove, before: &Link, source: NetlinkError) -> Error {
    let LinkMove { from, index, name, to, new_name, alias: _ } = moved;
    let (from, to) = (*from, *to);
    let refused = MoveError::Refused { name: name.clone(), to, new_name: new_name.to_string(), source };
    let error = Error::from(refused);
    let is_gone = from != to && matches!(host.socket(from).map(|socket| socket.link_by_index(*index)), Ok(Ok(None)));
    let there = if is_gone { find_moved(host, to, new_name, before) } else { None };
    let Some(index) = there else { return error };
    match carry_out(host, &way_back(moved, before, index)) {
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
