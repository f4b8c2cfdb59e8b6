//! Finds the link of a step, and interprets the kernel's answers.

use cni_core::error::{Error, Failure as _};
use cni_core::fail;
use cni_core::names::IfName;
use cni_kernel::netlink::NetlinkError;
use cni_model::link::Link;
use cni_model::plan::{IfPresent, Ns};

use crate::machine::LinuxHost;

/// The index of a link that must exist.
pub(super) fn index(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<u32, Error> {
    Ok(present(host, ns, name)?.index)
}

/// A link that must exist.
pub(super) fn present(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<Link, Error> {
    let link = host.socket(ns)?.link(name.as_str())?;
    link.ok_or_else(|| no_link(ns, name.as_str()))
}

pub(super) fn no_link(ns: Ns, name: &str) -> Error {
    fail!(Kernel, "there is no link {name:?} in the {ns} namespace")
}

/// A refusal of the kernel under a text of the reference's.
pub(super) fn refused(source: NetlinkError, text: String) -> Error {
    Error::stated(source.code(), text, Error::from(source).in_full())
}

/// Whether this step made the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Creation {
    Now,
    Earlier,
}

/// Another ADD may have made the same shared object a moment ago.
pub(super) fn accept_existing(done: Result<(), NetlinkError>) -> Result<Creation, NetlinkError> {
    match done {
        Ok(()) => Ok(Creation::Now),
        Err(error) if error.errno() == Some(libc::EEXIST) => Ok(Creation::Earlier),
        Err(error) => Err(error),
    }
}

/// The same where the step says whether an earlier object is accepted.
pub(super) fn created(done: Result<(), NetlinkError>, if_present: IfPresent) -> Result<Creation, NetlinkError> {
    match if_present {
        IfPresent::Accept => accept_existing(done),
        IfPresent::Refuse => done.map(|()| Creation::Now),
    }
}

/// Accepts the removal of an object that does not exist.
pub(super) fn accept_absent(done: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    done.or_else(|error| match error.errno() {
        Some(libc::ENODEV | libc::ENOENT | libc::EADDRNOTAVAIL | libc::ESRCH) => Ok(()),
        Some(_) | None => Err(error),
    })
}

/// A refusal, with the reason if what may have been made cannot be removed. If the kernel refuses the removal as it refused the change, it
/// does not take such an object: there is nothing to remove.
pub(super) fn refusal(refused: NetlinkError, undone: Result<(), NetlinkError>) -> Error {
    match undone {
        Err(failed) if failed.cause() != refused.cause() => {
            Error::from(refused).with_note(format!("and it could not be taken back: {failed}"))
        }
        Ok(()) | Err(_) => refused.into(),
    }
}
