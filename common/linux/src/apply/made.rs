//! Interprets the kernel's answer if an object may exist already, or may be missing.

use cni_core::error::Error;
use cni_kernel::netlink::NetlinkError;

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

/// Accepts the removal of an object that does not exist.
pub(super) fn accept_absent(done: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    done.or_else(|error| if is_absent(&error) { Ok(()) } else { Err(error) })
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

/// Whether the kernel's answer is that the object does not exist.
fn is_absent(error: &NetlinkError) -> bool {
    matches!(error.errno(), Some(libc::ENODEV | libc::ENOENT | libc::EADDRNOTAVAIL | libc::ESRCH))
}
