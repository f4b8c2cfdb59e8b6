//! The socket and its three kinds of requests: for one object, for all objects of a kind (a dump), and for a change.
//! `batch` sends several changes at once, together or each for itself.
//!
//! The socket is connected to the kernel, so no other process can answer. Every request has its own sequence number;
//! messages that belong to an earlier request, such as an answer after a time-out, are skipped. The caller's `read`
//! function decodes the answers.

pub mod batch;

use std::env;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use cni_core::error::Error;
use cni_core::fail;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_ECHO, NLM_F_MULTIPART, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::SocketAddr;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sendmsg, setsockopt, socket, socketpair,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::error::{Cause, NetlinkError, TIMEOUT, during};
use super::reply::{Messages, ReplyKind};
use crate::netns::Netns;

/// How often a dump is repeated that was interrupted by a change, since it may lack entries that existed all the time.
/// A dump takes a few milliseconds.
const REPEATS: u32 = 50;
/// The size of the receive buffer. The parts of a dump have at most 32 KiB; a link with many virtual functions is
/// larger. Only memory that is written to is used.
const CAPACITY: usize = 1024 * 1024;

/// The objects of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dump<T> {
    /// All of them.
    Whole(Vec<T>),
    /// A change has interrupted the dump: objects may be missing that existed all the time.
    Interrupted(Vec<T>),
}

/// A netlink socket in the network namespace that its thread was in when it was opened. It speaks route netlink, except
/// the few that other modules open for their own protocol.
#[derive(Debug)]
pub struct Socket {
    inner: netlink_sys::Socket,
    /// Dropped behind the descriptor.
    ending: SocketClosing,
    sequence: u32,
    buffer: Vec<u8>,
    /// Whether the kernel may have more messages of a dump. Then it refuses another dump (`EBUSY`).
    has_open_dump: bool,
    /// The protocol, to open the socket again; `None` in tests with a simulated kernel.
    protocol: Option<isize>,
    /// When it stops waiting for answers, if not only after a time-out.
    deadline: Option<Instant>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.ending.before_close(&self.inner);
    }
}

impl Socket {
    /// Opens a socket in the network namespace of the calling thread.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::of(NETLINK_ROUTE)
    }

    /// Opens a socket of a netlink protocol in the network namespace of the calling thread.
    pub fn of(protocol: isize) -> Result<Self, NetlinkError> {
        Self::connect(protocol).map_err(Cause::from).map_err(during(|| "open a netlink socket".to_owned()))
    }

    fn connect(protocol: isize) -> io::Result<Self> {
        let inner = netlink_sys::Socket::new(protocol)?;
        setsockopt(&inner, sockopt::ReceiveTimeout, &TimeVal::seconds(TIMEOUT.as_secs().cast_signed()))?;
        for (option, result) in [
            ("NETLINK_EXT_ACK", inner.set_ext_ack(true)),
            ("NETLINK_CAP_ACK", inner.set_cap_ack(true)),
            ("NETLINK_GET_STRICT_CHK", inner.set_netlink_get_strict_chk(true)),
        ] {
            if let Err(error) = result {
                log::debug!("the kernel does not support {option}: {error}");
            }
        }
        inner.connect(&SocketAddr::new(0, 0))?;
        Ok(Self::on(inner, Some(protocol)))
    }

    fn on(inner: netlink_sys::Socket, protocol: Option<isize>) -> Self {
        let ending = protocol.map_or_else(SocketClosing::default, SocketClosing::of);
        Self {
            inner,
            ending,
            sequence: 0,
            buffer: Vec::with_capacity(CAPACITY),
            has_open_dump: false,
            protocol,
            deadline: None,
        }
    }

    /// Replaces a socket whose last dump was not read to its end by a new one in the same namespace. It would not help
    /// to read on: if the kernel fails in the middle of a dump, it sends nothing more and keeps the dump open.
    fn close_dump(&mut self) -> Result<(), Cause> {
        let Some(protocol) = self.protocol.filter(|_| self.has_open_dump) else { return Ok(()) };
        let deadline = self.deadline;
        *self = Netns::of_socket(&self.inner)?.inside(|| Self::connect(protocol))??;
        self.deadline = deadline;
        Ok(())
    }

    /// Receives no answer after this time. Another user of the machine can make a dump as long as they like.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// The cookie of the socket's namespace; `None` before Linux 5.14.
    pub fn netns_cookie(&self) -> Result<Option<u64>, Error> {
        cookie_of(&self.inner)
    }

    /// Asks for one object, which `read` takes from its message.
    pub fn ask<T>(
        &mut self,
        question: impl NetlinkSerializable,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<T, Cause> {
        let mut answer = None;
        self.converse(question, 0, |payload| answer = read(payload))?;
        answer.ok_or(Cause::Malformed)
    }

    /// Asks for an object that the kernel returns only as the notification of a change; `None` if it returns nothing.
    pub fn ask_with_echo<T>(
        &mut self,
        question: impl NetlinkSerializable,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Cause> {
        let mut answer = None;
        self.converse(question, NLM_F_ECHO | NLM_F_ACK, |payload| answer = read(payload))?;
        Ok(answer)
    }

    /// Asks for many objects; those for which `read` has `None` are left out.
    pub fn dump<T>(
        &mut self,
        question: &(impl NetlinkSerializable + Clone),
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, Cause> {
        let mut repeats = 0;
        loop {
            match (self.dump_once(question, &read)?, repeats) {
                (Dump::Whole(found), _) => return Ok(found),
                (Dump::Interrupted(_), REPEATS) => return Err(Cause::Interrupted),
                (Dump::Interrupted(_), _) => repeats += 1,
            }
        }
    }

    /// The same, without a repeat of a dump that was interrupted.
    pub fn dump_once<T>(
        &mut self,
        question: &(impl NetlinkSerializable + Clone),
        mut read: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Dump<T>, Cause> {
        self.close_dump()?;
        let mut found = Vec::new();
        let interrupted = self.converse(question.clone(), NLM_F_DUMP, |payload| found.extend(read(payload)))?;
        Ok(if interrupted { Dump::Interrupted(found) } else { Dump::Whole(found) })
    }

    /// Makes a change and waits until it is acknowledged.
    pub fn change(&mut self, change: impl NetlinkSerializable, flags: u16) -> Result<(), Cause> {
        self.converse(change, NLM_F_ACK | flags, |_| ()).map(|_| ())
    }

    /// Sends a request, passes the data of the answer on, and returns whether the dump was interrupted.
    fn converse(
        &mut self,
        request: impl NetlinkSerializable,
        flags: u16,
        mut data: impl FnMut(&[u8]),
    ) -> Result<bool, Cause> {
        let sequence = self.send(request, flags)?;
        self.has_open_dump |= flags & NLM_F_DUMP == NLM_F_DUMP;
        let mut interrupted = false;
        loop {
            self.receive()?;
            for message in Messages::new(&self.buffer) {
                let message = message?;
                if message.sequence != sequence {
                    continue;
                }
                interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
                match message.outcome() {
                    ReplyKind::Nothing => (),
                    ReplyKind::Ended(result) => {
                        self.has_open_dump &= flags & NLM_F_DUMP != NLM_F_DUMP;
                        return result.map(|()| interrupted).map_err(Cause::from);
                    }
                    ReplyKind::Data(payload) => {
                        data(payload);
                        if flags & (NLM_F_ACK | NLM_F_DUMP) == 0 && message.flags & NLM_F_MULTIPART == 0 {
                            return Ok(interrupted);
                        }
                    }
                }
            }
        }
    }

    fn send(&mut self, request: impl NetlinkSerializable, flags: u16) -> Result<u32, Cause> {
        let mut bytes = Vec::new();
        let sequence = self.append(&mut bytes, request, flags);
        uninterrupted(|| self.inner.send(&bytes, 0))?;
        Ok(sequence)
    }

    /// Appends a request to others, and returns its sequence number.
    fn append(&mut self, bytes: &mut Vec<u8>, request: impl NetlinkSerializable, flags: u16) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
        message.finalize();
        let start = bytes.len();
        bytes.resize(start + message.buffer_len(), 0);
        message.serialize(&mut bytes[start..]);
        self.sequence
    }

    /// Receives one datagram into the buffer.
    fn receive(&mut self) -> Result<(), Cause> {
        let Self { inner, buffer, deadline, .. } = self;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Cause::Timeout);
        }
        buffer.clear();
        let length = received(|| inner.recv(buffer, libc::MSG_TRUNC))?;
        if length > buffer.len() { Err(Cause::Malformed) } else { Ok(()) }
    }
}

fn received(receive: impl FnMut() -> io::Result<usize>) -> Result<usize, Cause> {
    uninterrupted(receive)
        .map_err(|error| if error.kind() == io::ErrorKind::WouldBlock { Cause::Timeout } else { error.into() })
}

/// Repeats a system call for as long as signals interrupt it.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => return result,
        }
    }
}

/// Reads the cookie of the calling thread's network namespace: a number that the kernel assigns once per boot, while the inode of
/// a namespace may be reused for a later one. `None` on kernels before 5.14, which do not know the question.
pub fn netns_cookie() -> Result<Option<u64>, Error> {
    cookie_of(&netlink_sys::Socket::new(NETLINK_ROUTE).map_err(unread)?)
}

/// Reads the cookie of the network namespace that a socket belongs to; `None` on kernels before 5.14.
fn cookie_of(socket: &netlink_sys::Socket) -> Result<Option<u64>, Error> {
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
            error => Err(unread(error)),
        },
    }
}

fn unread(source: io::Error) -> Error {
    fail!(Kernel, "failed to read the cookie of the network namespace", details: "{source}")
}

/// Set to anything, it turns this off.
const SWITCH: &str = "CNI_PLUGINS_WAIT_FOR_CLOSE";

/// Whether the process waits for the kernel all the same: if it is told to, and in CHECK, which has deleted nothing and waits at most
/// for what others have just deleted.
fn waits() -> bool {
    env::var_os(SWITCH).is_some() || env::var_os("CNI_COMMAND").is_some_and(|command| command == "CHECK")
}

/// How a socket is closed: at once, or by the kernel's garbage collector, without waiting for the kernel.
///
/// After a batch that has deleted rules, closing any netfilter socket of the namespace waits until no packet can be
/// processed by these rules any more: 9 to 16 ms (`nft_rcv_nl_event` in `net/netfilter/nf_tables_api.c` flushes the
/// work that frees them). The wait is of no use, since the change was complete when it was acknowledged.
///
/// A descriptor that is sent through a UNIX socket stays open until it is received. If it is sent into a pair of
/// sockets that have themselves been sent into that pair, and are open nowhere else, nobody can receive it. The
/// kernel's garbage collector closes such sockets (`net/unix/garbage.c`), since Linux 6.8 in its own worker thread.
/// The collector starts when a UNIX socket is closed while descriptors are in flight. On older kernels it runs inside
/// that close, so the process waits as it would without this.
#[derive(Debug, Default)]
struct SocketClosing {
    may_wait: bool,
    is_sent_away: bool,
}

impl SocketClosing {
    /// The end of a socket of a protocol.
    const fn of(protocol: isize) -> Self {
        Self { may_wait: protocol == NETLINK_NETFILTER, is_sent_away: false }
    }

    /// To be called before the socket's own descriptor is closed; this is dropped after that.
    fn before_close(&mut self, socket: &netlink_sys::Socket) {
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

/// A socket with a simulated kernel, with prepared answers, and the kernel's end of it, where requests arrive.
///
/// # Panics
/// If the process cannot open more sockets.
#[cfg(any(test, feature = "fuzz"))]
#[must_use]
pub fn played(answers: &[Vec<u8>]) -> (Socket, std::os::unix::net::UnixDatagram) {
    use std::os::fd::{FromRawFd, IntoRawFd};
    let (socket, kernel) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
    for answer in answers {
        kernel.send(answer).expect("sent");
    }
    // Where the kernel would wait for its time-out, this socket has it at once.
    socket.set_nonblocking(true).expect("set");
    // SAFETY: the descriptor is open and given away.
    let inner = unsafe { netlink_sys::Socket::from_raw_fd(socket.into_raw_fd()) };
    (Socket::on(inner, None), kernel)
}

#[cfg(test)]
mod tests;
