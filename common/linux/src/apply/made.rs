//! The kernel's answer to a change of something that may exist already, or may be gone.

use cni_kernel::netlink::NetlinkError;

/// Whether this step made the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    Now,
    Earlier,
}

/// Another ADD may have made the same shared object a moment ago.
pub(super) fn accept_existing(done: Result<(), NetlinkError>) -> Result<Made, NetlinkError> {
    match done {
        Ok(()) => Ok(Made::Now),
        Err(error) if error.errno() == Some(libc::EEXIST) => Ok(Made::Earlier),
        Err(error) => Err(error),
    }
}

/// Removing something that is gone already is a success.
pub(super) fn accept_absent(done: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    done.or_else(|error| if is_absent(&error) { Ok(()) } else { Err(error) })
}

/// Whether the kernel's answer is that the object does not exist (any more).
fn is_absent(error: &NetlinkError) -> bool {
    matches!(error.errno(), Some(libc::ENODEV | libc::ENOENT | libc::EADDRNOTAVAIL | libc::ESRCH))
}
