//! The socket and its three kinds of requests: for one object, for all objects of a kind (a dump), and for a change.
//! `batch` and `series` send several changes at once.
//!
//! The socket is connected to the kernel, so no other process can answer. Every request has its own sequence number;
//! messages that belong to an earlier request, such as an answer after a time-out, are skipped. The caller's `read`
//! function decodes the answers.

pub mod batch;
#[cfg(any(test, feature = "fuzz"))]
pub mod played;
mod release;
mod series;

use std::io;
use std::time::Instant;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_ECHO, NLM_F_MULTIPART, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::SocketAddr;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::cookie::cookie_of;
use super::error::{Cause, NetlinkError, TIMEOUT, during};
use super::reply::{Messages, ReplyKind};
use crate::netns::Netns;

use release::SocketClosing;

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

impl<T> Dump<T> {
    /// Those that came.
    pub fn into_objects(self) -> Vec<T> {
        match self {
            Self::Whole(objects) | Self::Interrupted(objects) => objects,
        }
    }
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
    pub fn netns_cookie(&self) -> io::Result<Option<u64>> {
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

#[cfg(test)]
mod tests;
