//! Reads answers: splits a datagram into messages, and classifies each of them.
//!
//! The header of a message is checked here; the modules for links, addresses and routes decode the payload.

use netlink_packet_core::{
    NLM_F_ACK_TLVS, NLM_F_CAPPED, NLMSG_ALIGNTO, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN, NetlinkBuffer,
};

use super::attribute::{field, find};
use super::error::{Cause, Errno, KernelText};

/// `NLMSGERR_ATTR_MSG` of `linux/netlink.h`: the kernel's own text.
const EXTENDED_TEXT: u16 = 1;
/// Length of the error number that opens an error and an end-of-dump message.
const CODE_LENGTH: usize = 4;
/// Length of a message header.
const HEADER_LENGTH: usize = 16;

/// A message with a sound header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_flags`.
    pub flags: u16,
    /// `nlmsg_seq`: that of the request which this answers.
    pub sequence: u32,
    /// `nlmsg_type`.
    pub kind: u16,
    payload: &'a [u8],
}

/// The meaning of a message for the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyKind<'a> {
    /// Part of the answer.
    Data(&'a [u8]),
    /// The end of it: an acknowledgement, the end of a dump, or an error.
    Ended(Result<(), Errno>),
    /// To be ignored.
    Nothing,
}

impl<'a> Message<'a> {
    /// Returns what the message means.
    pub fn outcome(&self) -> ReplyKind<'a> {
        match self.kind {
            NLMSG_NOOP => ReplyKind::Nothing,
            NLMSG_OVERRUN => ReplyKind::Ended(Err(Errno::new(libc::ENOBUFS))),
            NLMSG_ERROR | NLMSG_DONE => ReplyKind::Ended(self.result()),
            _ => ReplyKind::Data(self.payload),
        }
    }

    fn result(&self) -> Result<(), Errno> {
        match field(self.payload, 0).map(i32::from_ne_bytes) {
            Some(0) => Ok(()),
            Some(code) => Err(Errno::new(code.wrapping_abs()).with_kernel_text(self.kernel_text())),
            // Old kernels end a dump without a number; an error always has one.
            None if self.kind == NLMSG_DONE => Ok(()),
            None => Err(Errno::new(libc::EBADMSG)),
        }
    }

    fn kernel_text(&self) -> Option<KernelText> {
        if self.flags & NLM_F_ACK_TLVS == 0 {
            return None;
        }
        let request = match self.kind {
            NLMSG_DONE => 0,
            _ if self.flags & NLM_F_CAPPED != 0 => HEADER_LENGTH,
            _ => aligned(usize::try_from(u32::from_ne_bytes(field(self.payload, CODE_LENGTH)?)).ok()?),
        };
        let extended = self.payload.get(CODE_LENGTH.checked_add(request)?..)?;
        find(extended, EXTENDED_TEXT).map(|text| KernelText(text.text()))
    }
}

/// The messages of a datagram; ends after one that is malformed.
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Reads a datagram.
    pub const fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Cause>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.rest);
        let Ok(buffer) = NetlinkBuffer::new_checked(bytes) else {
            return Some(Err(Cause::Malformed));
        };
        let length = usize::try_from(buffer.length()).unwrap_or(usize::MAX);
        self.rest = bytes.get(aligned(length)..).unwrap_or_default();
        let message = Message {
            flags: buffer.flags(),
            sequence: buffer.sequence_number(),
            kind: buffer.message_type(),
            payload: buffer.payload(),
        };
        Some(Ok(message))
    }
}

fn aligned(length: usize) -> usize {
    length.checked_next_multiple_of(usize::from(NLMSG_ALIGNTO)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
