//! Moves a link to another namespace.

use std::os::fd::AsFd;

use cni_core::error::{Code, Error, Failure};
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::{LinkMove, Ns, Step};

use super::look_up::present;
use crate::machine::LinuxHost;
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

/// Moves a link; returns the step that moves it back. The name is looked for first, since the kernel would move the link
/// under its old name before it finds that out.
pub(super) fn carry_out(host: &mut LinuxHost, moved: &LinkMove) -> Result<Step, Error> {
    let LinkMove { from, name, to, new_name, alias } = moved;
    let link = present(host, *from, name)?;
    let is_itself = from == to && name == new_name;
    if let Some(found) = host.socket(*to)?.link(new_name.as_str())?.filter(|_| !is_itself) {
        let (name, new_name) = (name.to_string(), new_name.to_string());
        return Err(MoveError::Taken { name, to: *to, new_name, found: found.kind }.into());
    }
    let (socket, netns) = host.socket_and_netns(*from, (from != to).then_some(*to))?;
    match socket.move_link(link.index, netns.as_deref().map(AsFd::as_fd), new_name, alias) {
        Ok(()) => Ok(Step::MoveLink(way_back(moved, &link))),
        Err(source) => Err(refusal(host, moved, &link, source)),
    }
}

fn way_back(moved: &LinkMove, before: &Link) -> LinkMove {
    let LinkMove { from, name, to, new_name, alias: _ } = moved.clone();
    LinkMove { from: to, name: new_name, to: from, new_name: name, alias: before.alias.clone().unwrap_or_default() }
}

/// The error for a move that failed. The kernel may have moved the link all the same: if it could not rename it there,
/// or if its answer was lost.
fn refusal(host: &mut LinuxHost, moved: &LinkMove, before: &Link, source: NetlinkError) -> Error {
    let LinkMove { from, name, to, new_name, alias: _ } = moved;
    let (from, to) = (*from, *to);
    let refused = MoveError::Refused { name: name.to_string(), to, new_name: new_name.to_string(), source };
    let error = Error::from(refused);
    let is_gone = from != to && matches!(host.socket(from).map(|socket| socket.link(name.as_str())), Ok(Ok(None)));
    let there = if is_gone { find_moved(host, to, [name, new_name], before) } else { None };
    let Some(name) = there else { return error };
    match carry_out(host, &LinkMove { name, ..way_back(moved, before) }) {
        Ok(_) => error,
        Err(failed) => error.with_note(format!("and it could not be moved back: {}", failed.in_full())),
    }
}

fn find_moved(host: &mut LinuxHost, ns: Ns, names: [&IfName; 2], before: &Link) -> Option<IfName> {
    let socket = host.socket(ns).ok()?;
    let is_it = |link: &Link| link.kind == before.kind && link.mac == before.mac;
    names.into_iter().find(|name| socket.link(name.as_str()).ok().flatten().is_some_and(|link| is_it(&link))).cloned()
}
