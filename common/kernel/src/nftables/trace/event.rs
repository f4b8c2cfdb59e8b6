//! The messages about a marked packet: `enum nft_trace_attributes` of `linux/netfilter/nf_tables.h`.
//!
//! Nothing here fails: a message without what every message has is left out, and an incomplete list of attributes ends
//! before the incomplete one.

use std::io;
use std::time::Duration;

use netlink_sys::SocketAddr;
use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::netlink::attribute::{Attribute, field, find};
use crate::netlink::reply::{Message, Messages, ReplyKind};

/// The type of such a message: `NFNL_SUBSYS_NFTABLES` and `NFT_MSG_TRACE`.
pub const TRACE: u16 = 10 << 8 | 17;

/// Length of `struct nfgenmsg`, which comes before the attributes.
const HEADER_LENGTH: usize = 4;

/// `NFTA_TRACE_*`.
const TABLE: u16 = 1;
const CHAIN: u16 = 2;
const HANDLE: u16 = 3;
const TYPE: u16 = 4;
const VERDICT: u16 = 5;
const PACKET: u16 = 6;
const NETWORK_HEADER: u16 = 8;
const TRANSPORT_HEADER: u16 = 9;
const INPUT: u16 = 10;
const OUTPUT: u16 = 12;
const POLICY: u16 = 16;

/// `NFT_TRACETYPE_POLICY`, `NFT_TRACETYPE_RETURN`, `NFT_TRACETYPE_RULE`.
const OF_POLICY: u32 = 1;
const OF_RETURN: u32 = 2;
const OF_RULE: u32 = 3;

/// `NFTA_VERDICT_CODE` and `NFTA_VERDICT_CHAIN`.
const CODE: u16 = 1;
const TARGET: u16 = 2;

/// What a packet has met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// The kernel's number for the packet, which a later one may have again.
    pub packet: u32,
    /// The family of the table: a number of `enum nf_proto`.
    pub family: u8,
    pub table: String,
    pub chain: String,
    pub kind: TraceKind,
    /// The packet itself, which the kernel sends once for each base chain.
    pub headers: Option<Headers>,
}

/// The beginning of a packet, and its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The IP header, at most 40 bytes of it.
    pub network: Vec<u8>,
    /// What follows it, at most 20 bytes.
    pub transport: Vec<u8>,
    /// The index of the link by which it came.
    pub input: Option<u32>,
    /// The index of the link by which it leaves.
    pub output: Option<u32>,
}

/// What has said something about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// A rule that matches.
    Rule { handle: u64, verdict: TraceVerdict },
    /// The end of a chain that another one has jumped to.
    Return,
    /// The policy of a base chain, at its end.
    Policy { accepts: bool },
}

/// What a rule does with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceVerdict {
    Accept,
    Drop,
    Jump(String),
    Goto(String),
    Return,
    /// The next rule follows.
    Continue,
    /// A program gets it, or the kernel keeps it.
    Taken,
}

/// Reads a message.
pub fn read(payload: &[u8]) -> Option<TraceEvent> {
    let [family] = field(payload, 0)?;
    let parts = Parts(payload.get(HEADER_LENGTH..)?);
    Some(TraceEvent {
        packet: parts.be32(PACKET)?,
        family,
        table: parts.text(TABLE)?,
        chain: parts.text(CHAIN)?,
        kind: parts.kind()?,
        headers: parts.headers(),
    })
}

/// The attributes of a message.
#[derive(Clone, Copy)]
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn find(self, kind: u16) -> Option<Attribute<'a>> {
        find(self.0, kind)
    }

    fn be32(self, kind: u16) -> Option<u32> {
        field(self.find(kind)?.value, 0).map(u32::from_be_bytes)
    }

    fn text(self, kind: u16) -> Option<String> {
        self.find(kind).map(Attribute::text)
    }

    fn kind(self) -> Option<TraceKind> {
        match self.be32(TYPE)? {
            OF_POLICY => Some(TraceKind::Policy { accepts: self.be32(POLICY)? != 0 }),
            OF_RETURN => Some(TraceKind::Return),
            OF_RULE => {
                let handle = field(self.find(HANDLE)?.value, 0).map(u64::from_be_bytes)?;
                Some(TraceKind::Rule { handle, verdict: Parts(self.find(VERDICT)?.value).verdict()? })
            }
            _ => None,
        }
    }

    fn verdict(self) -> Option<TraceVerdict> {
        let target = || self.text(TARGET);
        Some(match self.be32(CODE)?.cast_signed() {
            -1 | -2 => TraceVerdict::Continue,
            -3 => TraceVerdict::Jump(target()?),
            -4 => TraceVerdict::Goto(target()?),
            -5 => TraceVerdict::Return,
            // The upper bits of a verdict of netfilter say more of it.
            code => match code & 0xff {
                0 => TraceVerdict::Drop,
                1 => TraceVerdict::Accept,
                _ => TraceVerdict::Taken,
            },
        })
    }

    fn headers(self) -> Option<Headers> {
        let network = self.find(NETWORK_HEADER)?.value.to_vec();
        let transport = self.find(TRANSPORT_HEADER).map(|header| header.value.to_vec()).unwrap_or_default();
        let index = |kind| self.be32(kind).filter(|index| *index != 0);
        Some(Headers { network, transport, input: index(INPUT), output: index(OUTPUT) })
    }
}

/// `NFNLGRP_NFTRACE`.
const GROUP: u32 = 9;
/// Room for one message.
const CAPACITY: usize = 64 * 1024;
/// Room for what waits to be read: many packets may come at once.
const ROOM: usize = 8 << 20;

/// What a socket received within its time limit.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    Events(Vec<TraceEvent>),
    Nothing,
    /// More came than the socket holds.
    Lost,
}

/// The socket, of the namespace that its thread was in when it was opened.
#[derive(Debug)]
pub struct TraceSocket {
    inner: netlink_sys::Socket,
    buffer: Vec<u8>,
}

impl TraceSocket {
    /// Opens a socket that waits so long for a message.
    ///
    /// # Errors
    /// When the kernel gives no socket, or has no trace.
    pub fn open(patience: Duration) -> io::Result<Self> {
        let mut inner = netlink_sys::Socket::new(NETLINK_NETFILTER)?;
        inner.bind(&SocketAddr::new(0, 0))?;
        if let Err(error) = setsockopt(&inner, sockopt::RcvBufForce, &ROOM) {
            log::debug!("the socket for the trace keeps its size: {error}");
        }
        let patience = TimeVal::microseconds(i64::try_from(patience.as_micros()).unwrap_or(i64::MAX));
        setsockopt(&inner, sockopt::ReceiveTimeout, &patience)?;
        inner.add_membership(GROUP)?;
        Ok(Self { inner, buffer: Vec::with_capacity(CAPACITY) })
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn receive(&mut self) -> io::Result<Received> {
        self.buffer.clear();
        match self.inner.recv(&mut self.buffer, 0) {
            Ok(_) => Ok(Received::Events(events(&self.buffer))),
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {
                Ok(Received::Nothing)
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(Received::Lost),
            Err(error) => Err(error),
        }
    }
}

/// The events of a datagram. Other messages are skipped.
fn events(datagram: &[u8]) -> Vec<TraceEvent> {
    let messages = Messages::new(datagram).filter_map(Result::ok).filter(|message| message.kind == TRACE);
    let payload = |message: Message<'_>| match message.outcome() {
        ReplyKind::Data(payload) => read(payload),
        ReplyKind::Ended(_) | ReplyKind::Nothing => None,
    };
    messages.filter_map(payload).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::netlink::attribute::written;

    use super::*;

    fn message(parts: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let attributes = parts.iter().flat_map(|(kind, value)| written(*kind, value));
        [2, 0, 0, 0].into_iter().chain(attributes).collect()
    }

    fn common(kind: u32) -> Vec<(u16, Vec<u8>)> {
        vec![
            (TABLE, b"filter\0".to_vec()),
            (CHAIN, b"FORWARD\0".to_vec()),
            (TYPE, kind.to_be_bytes().to_vec()),
            (PACKET, 7_u32.to_be_bytes().to_vec()),
        ]
    }

    fn rule(code: i32, target: &[u8]) -> Option<TraceKind> {
        let verdict = [written(CODE, &code.to_be_bytes()), written(TARGET, target)].concat();
        let parts = [common(OF_RULE), vec![(HANDLE, 9_u64.to_be_bytes().to_vec()), (VERDICT, verdict)]].concat();
        read(&message(&parts)).map(|event| event.kind)
    }

    #[test]
    fn a_rule_is_read_with_what_it_does() {
        for (code, verdict) in [
            (0, TraceVerdict::Drop),
            (1, TraceVerdict::Accept),
            (0x0001_0000, TraceVerdict::Drop),
            (3, TraceVerdict::Taken),
            (-1, TraceVerdict::Continue),
            (-3, TraceVerdict::Jump("CNI-FORWARD".to_owned())),
            (-4, TraceVerdict::Goto("CNI-FORWARD".to_owned())),
            (-5, TraceVerdict::Return),
        ] {
            assert_eq!(rule(code, b"CNI-FORWARD\0"), Some(TraceKind::Rule { handle: 9, verdict }), "{code}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0_usize..120) {
            for kind in [0, OF_POLICY, OF_RULE, 4, u32::MAX] {
                prop_assert_eq!(read(&message(&common(kind))), None, "without its parts");
            }
            read(&bytes);
            let whole = message(&common(OF_RETURN));
            read(&whole[..cut.min(whole.len())]);
        }
    }
}
