//! Interprets the kernel's answer if an object may exist already, or may be missing.

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

/// Whether the kernel's answer is that the object does not exist.
fn is_absent(error: &NetlinkError) -> bool {
    matches!(error.errno(), Some(libc::ENODEV | libc::ENOENT | libc::EADDRNOTAVAIL | libc::ESRCH))
}
