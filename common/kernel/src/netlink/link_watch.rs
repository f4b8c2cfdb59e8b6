//! Whether links of a namespace have changed.

use std::io;

use netlink_sys::SocketAddr;
use netlink_sys::protocols::NETLINK_ROUTE;

/// `RTNLGRP_LINK` of `linux/rtnetlink.h`.
const GROUP: u32 = 1;
/// Room for one message, which is not read.
const CAPACITY: usize = 16;

/// A socket to which the kernel sends each change of a link, while it still holds the lock for changes.
#[derive(Debug)]
pub struct LinkWatch {
    inner: netlink_sys::Socket,
    buffer: Vec<u8>,
}

impl LinkWatch {
    /// Watches the links of the namespace that the calling thread is in.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn open() -> io::Result<Self> {
        let mut inner = netlink_sys::Socket::new(NETLINK_ROUTE)?;
        inner.set_non_blocking(true)?;
        inner.bind(&SocketAddr::new(0, 0))?;
        inner.add_membership(GROUP)?;
        Ok(Self { inner, buffer: Vec::with_capacity(CAPACITY) })
    }

    /// Whether a link was made, changed or deleted since the last call. More changes than the socket has room for are
    /// changes, and so is what cannot be told.
    pub fn has_changed(&mut self) -> bool {
        let mut changed = false;
        loop {
            self.buffer.clear();
            match self.inner.recv(&mut self.buffer, libc::MSG_TRUNC) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return changed,
                Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => return true,
                Ok(_) | Err(_) => changed = true,
            }
        }
    }
}
