//! Batches of netfilter: several changes in one datagram, which take effect together or not at all.
//!
//! The kernel processes the batch while it is sent. It answers each change that it refuses, and always the last one.
//! An answer about the whole batch has the sequence number of the message that opened it.
//!
//! And series of independent changes, sent in groups: one that fails does not affect the others.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_ECHO, NetlinkSerializable};
use netlink_packet_netfilter::NetfilterMessage;
use nix::sys::socket::{setsockopt, sockopt};

use super::{Socket, uninterrupted};
use crate::netlink::error::Cause;
use crate::netlink::reply::{Message, Messages, ReplyKind};

/// A batch up to this size fits the send buffer that a socket has from the start.
const SMALL: usize = 64 * 1024;

/// So many notifications, and the answers to a batch, fit the receive buffer that a socket has from the start: 208 KiB.
const FEW_ECHOES: usize = 16;

/// What a notification takes of the receive buffer, at most: the kernel allocates one page for each, and its own records.
/// `SO_RCVBUFFORCE` doubles the number.
const ECHO_SIZE: usize = 4096;

/// A refused change.
#[derive(Debug)]
pub struct RefusedChange {
    /// Which change, counted from 0; `None` for the batch as a whole.
    pub change: Option<usize>,
    /// Why.
    pub cause: Cause,
}

impl RefusedChange {
    /// Whether another change came first, so that a batch that is bound to a generation was refused.
    pub fn is_late(&self) -> bool {
        self.cause.errno() == Some(libc::ERESTART)
    }
}

impl Socket {
    /// Makes changes, each with its flags, all of them or none. `begin` and `end` enclose them. `echo` is called with
    /// the kernel's notification of each change that has `NLM_F_ECHO`: the index of the change, the type of the
    /// message, and its payload. Where the socket cannot be made large enough for all of them, none is asked for: the answer
    /// to the whole batch comes after them, and would be lost.
    pub fn batch<M: NetlinkSerializable>(
        &mut self,
        [begin, end]: [M; 2],
        changes: Vec<(M, u16)>,
        mut echo: impl FnMut(usize, u16, &[u8]),
    ) -> Result<(), RefusedChange> {
        let mut bytes = Vec::new();
        let first = self.append(&mut bytes, begin, 0);
        let mut left = changes.len();
        let flags_kept = if self.has_room_for_echoes(&changes) { u16::MAX } else { !NLM_F_ECHO };
        for (change, flags) in changes {
            left -= 1;
            let flags = flags & flags_kept;
            self.append(&mut bytes, change, if left == 0 { flags | NLM_F_ACK } else { flags });
        }
        let last = self.sequence;
        self.append(&mut bytes, end, 0);
        let sent = self.make_room(bytes.len()).and_then(|()| uninterrupted(|| self.inner.send(&bytes, 0)));
        sent.map_err(|error| RefusedChange { change: None, cause: error.into() })?;
        let index =
            |sequence: u32| sequence.wrapping_sub(first).checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let heard = |message: Message<'_>, payload: &[u8]| {
            if let Some(index) = index(message.sequence) {
                echo(index, message.kind, payload);
            }
        };
        self.await_outcome(first, last, heard)
            .map_err(|(sequence, cause)| RefusedChange { change: index(sequence), cause })
    }

    /// Waits for the first refusal, or for the acknowledgement of the last change.
    fn await_outcome(
        &mut self,
        first: u32,
        last: u32,
        mut heard: impl FnMut(Message<'_>, &[u8]),
    ) -> Result<(), (u32, Cause)> {
        loop {
            match self.receive() {
                // There were more answers than the socket holds. It holds the first, and that is what counts.
                Err(cause) if cause.errno() == Some(libc::ENOBUFS) => self.receive(),
                received => received,
            }
            .map_err(|cause| (first, cause))?;
            for message in Messages::new(&self.buffer) {
                let message = message.map_err(|cause| (first, cause))?;
                if message.sequence.wrapping_sub(first) > last.wrapping_sub(first) {
                    continue;
                }
                match message.outcome() {
                    ReplyKind::Ended(Err(errno)) => return Err((message.sequence, errno.into())),
                    ReplyKind::Ended(Ok(())) if message.sequence == last => return Ok(()),
                    ReplyKind::Data(payload) => heard(message, payload),
                    ReplyKind::Ended(Ok(())) | ReplyKind::Nothing => {}
                }
            }
        }
    }

    /// Makes room for the notifications of all changes that ask for one, which the kernel sends before this process can
    /// read any. Returns whether there is enough.
    fn has_room_for_echoes<M>(&self, changes: &[(M, u16)]) -> bool {
        let echoes = changes.iter().filter(|(_, flags)| flags & NLM_F_ECHO != 0).count();
        let size = echoes.saturating_mul(ECHO_SIZE);
        echoes <= FEW_ECHOES || setsockopt(&self.inner, sockopt::RcvBufForce, &size).is_ok()
    }

    /// A batch is one datagram; thousands of rules do not fit the buffer that a socket has from the start.
    fn make_room(&self, length: usize) -> io::Result<()> {
        if length <= SMALL {
            return Ok(());
        }
        Ok(setsockopt(&self.inner, sockopt::SndBufForce, &length)?)
    }
}

/// The number of independent changes that are sent at a time: few enough that the socket's buffer holds a refusal of each. The kernel
/// processes them in order, so only the last of a group is acknowledged, and every refused one is answered.
const GROUP: usize = 64;

impl Socket {
    /// Sends a change for each item, in order. Calls `refused` with each item whose change the kernel refuses, and with the cause.
    pub fn series<T, M: NetlinkSerializable>(
        &mut self,
        items: &[T],
        change: impl Fn(&T) -> M,
        mut refused: impl FnMut(&T, Cause),
    ) -> Result<(), Cause> {
        for group in items.chunks(GROUP) {
            let (mut bytes, first) = (Vec::new(), self.sequence.wrapping_add(1));
            for (left, item) in (0..group.len()).rev().zip(group) {
                self.append(&mut bytes, change(item), if left == 0 { NLM_F_ACK } else { 0 });
            }
            uninterrupted(|| self.inner.send(&bytes, 0))?;
            self.await_last(first, |index, cause| {
                if let Some(item) = group.get(index) {
                    refused(item, cause);
                }
            })?;
        }
        Ok(())
    }

    /// Waits for the answer to the last change that was sent.
    fn await_last(&mut self, first: u32, mut refused: impl FnMut(usize, Cause)) -> Result<(), Cause> {
        let last = self.sequence;
        loop {
            self.receive()?;
            for message in Messages::new(&self.buffer) {
                let message = message?;
                let index = message.sequence.wrapping_sub(first);
                if index > last.wrapping_sub(first) {
                    continue;
                }
                let ReplyKind::Ended(result) = message.outcome() else { continue };
                if let (Err(errno), Ok(index)) = (result, usize::try_from(index)) {
                    refused(index, errno.into());
                }
                if message.sequence == last {
                    return Ok(());
                }
            }
        }
    }
}

/// The bytes of a message behind its header. A rule takes a tenth of the memory that its attributes take.
#[derive(Clone, Debug)]
pub struct PackedMessage {
    kind: u16,
    pub(crate) bytes: Vec<u8>,
}

impl PackedMessage {
    pub(crate) const fn new(kind: u16, bytes: Vec<u8>) -> Self {
        Self { kind, bytes }
    }
}

impl From<NetfilterMessage> for PackedMessage {
    fn from(message: NetfilterMessage) -> Self {
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        Self { kind: message.message_type(), bytes }
    }
}

impl NetlinkSerializable for PackedMessage {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.bytes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.bytes);
    }
}
