//! The cookie of a network namespace: a number that the kernel assigns once per boot. The inode of a namespace, in
//! contrast, may be reused for a later one.

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;

use netlink_sys::protocols::NETLINK_ROUTE;

/// Reads the cookie of the calling thread's network namespace; `None` on kernels before 5.14, which do not know
/// the question.
pub fn netns_cookie() -> io::Result<Option<u64>> {
    cookie_of(&netlink_sys::Socket::new(NETLINK_ROUTE)?)
}

/// Reads the cookie of the network namespace that a socket belongs to; `None` on kernels before 5.14.
pub fn cookie_of(socket: &netlink_sys::Socket) -> io::Result<Option<u64>> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the descriptor is open; value and length are writable and outlive the call, and the
    // length is that of the value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(Some(cookie)),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
            error => Err(error),
        },
    }
}
