//! A socket that receives the messages about marked packets.

use std::io;
use std::time::Duration;

use netlink_sys::SocketAddr;
use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::event::{self, TraceEvent};
use crate::netlink::reply::{Message, Messages, ReplyKind};

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
    let messages = Messages::new(datagram).filter_map(Result::ok).filter(|message| message.kind == event::TRACE);
    let payload = |message: Message<'_>| match message.outcome() {
        ReplyKind::Data(payload) => event::read(payload),
        ReplyKind::Ended(_) | ReplyKind::Nothing => None,
    };
    messages.filter_map(payload).collect()
}
