//! A socket with a simulated kernel, for tests and fuzz targets.

use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::net::UnixDatagram;

use super::Socket;

/// A socket with prepared answers, and the kernel's end of it, where requests arrive.
///
/// # Panics If the process cannot open more sockets.
#[must_use]
pub fn played(answers: &[Vec<u8>]) -> (Socket, UnixDatagram) {
    let (socket, kernel) = UnixDatagram::pair().expect("a pair");
    for answer in answers {
        kernel.send(answer).expect("sent");
    }
    // Where the kernel would wait for its time-out, this socket has it at once.
    socket.set_nonblocking(true).expect("set");
    // SAFETY: the descriptor is open and given away.
    let inner = unsafe { netlink_sys::Socket::from_raw_fd(socket.into_raw_fd()) };
    (Socket::on(inner, None), kernel)
}
