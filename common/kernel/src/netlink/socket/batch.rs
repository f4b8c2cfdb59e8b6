//! Batches of netfilter: several changes in one datagram, which take effect together or not at all.
//!
//! The kernel processes the batch while it is sent. It answers each change that it refuses, and always the last one.
//! An answer about the whole batch has the sequence number of the message that opened it.

use std::io;
use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_ACK, NetlinkSerializable};

use super::super::error::Cause;
use super::super::reply::{Message, Messages, ReplyKind};
use super::{Socket, uninterrupted};

/// A batch up to this size fits the send buffer that a socket has from the start.
const SMALL: usize = 64 * 1024;

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
    /// message, and its payload. Some are lost if the socket is full.
    pub fn batch<M: NetlinkSerializable>(
        &mut self,
        [begin, end]: [M; 2],
        changes: Vec<(M, u16)>,
        mut echo: impl FnMut(usize, u16, &[u8]),
    ) -> Result<(), RefusedChange> {
        let mut bytes = Vec::new();
        let first = self.append(&mut bytes, begin, 0);
        let mut left = changes.len();
        for (change, flags) in changes {
            left -= 1;
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

    /// A batch is one datagram; thousands of rules do not fit the buffer that a socket has from the start.
    fn make_room(&self, length: usize) -> io::Result<()> {
        if length <= SMALL {
            return Ok(());
        }
        let size = libc::c_int::try_from(length).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open, and the option's value is an int that outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.inner.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUFFORCE,
                (&raw const size).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
