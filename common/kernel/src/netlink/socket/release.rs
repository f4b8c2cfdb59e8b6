//! Closes a socket without waiting for the kernel.
//!
//! After a batch that has deleted rules, closing any netfilter socket of the namespace waits until no packet can be
//! processed by these rules any more: 9 to 16 ms (`nft_rcv_nl_event` in `net/netfilter/nf_tables_api.c` flushes the
//! work that frees them). The wait is of no use, since the change was complete when it was acknowledged.
//!
//! A descriptor that is sent through a UNIX socket stays open until it is received. If it is sent into a pair of
//! sockets that have themselves been sent into that pair, and are open nowhere else, nobody can receive it. The
//! kernel's garbage collector closes such sockets (`net/unix/garbage.c`), since Linux 6.8 in its own worker thread.
//! The collector starts when a UNIX socket is closed while descriptors are in flight. On older kernels it runs inside
//! that close, so the process waits as it would without this module.

use std::env;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};

use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sendmsg, socket, socketpair,
};

/// Set to anything, it turns this off.
const SWITCH: &str = "CNI_PLUGINS_WAIT_FOR_CLOSE";

/// Whether the process waits for the kernel all the same: if it is told to, and in CHECK, which has deleted nothing and waits at most
/// for what others have just deleted.
fn waits() -> bool {
    env::var_os(SWITCH).is_some() || env::var_os("CNI_COMMAND").is_some_and(|command| command == "CHECK")
}

/// How a socket is closed: at once, or by the kernel's garbage collector.
#[derive(Debug, Default)]
pub(super) struct SocketClosing {
    may_wait: bool,
    is_sent_away: bool,
}

impl SocketClosing {
    /// The end of a socket of a protocol.
    pub(super) const fn of(protocol: isize) -> Self {
        Self { may_wait: protocol == NETLINK_NETFILTER, is_sent_away: false }
    }

    /// To be called before the socket's own descriptor is closed; this is dropped after that.
    pub(super) fn before_close(&mut self, socket: &netlink_sys::Socket) {
        if !self.may_wait || waits() {
            return;
        }
        match send_away(socket.as_raw_fd()) {
            Ok(()) => self.is_sent_away = true,
            Err(error) => log::debug!("closing the netlink socket waits for the kernel: {error}"),
        }
    }
}

impl Drop for SocketClosing {
    fn drop(&mut self) {
        if !self.is_sent_away {
            return;
        }
        if let Err(error) = start_collector() {
            log::debug!("the netlink socket is closed when the next UNIX socket is: {error}");
        }
    }
}

/// Sends a descriptor into a pair of sockets, and the pair after it. Both are closed here.
fn send_away(descriptor: RawFd) -> io::Result<()> {
    let (one, other) = socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::SOCK_CLOEXEC)?;
    let descriptors = [descriptor, one.as_raw_fd(), other.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&descriptors)];
    sendmsg::<UnixAddr>(one.as_raw_fd(), &[IoSlice::new(&[0])], &rights, MsgFlags::empty(), None)?;
    Ok(())
}

fn start_collector() -> io::Result<()> {
    drop(socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?);
    Ok(())
}
