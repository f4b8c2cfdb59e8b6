//! What the kernel tracks of UDP connections: a filtered dump, and deleting one entry.
//!
//! The dump is filtered by the kernel (`CTA_FILTER`, Linux 5.8; older kernels send all) and once more as
//! it is read, so memory holds what was asked for and no more. An entry is deleted by its own tuple and
//! number, so that not even a later connection between the same ends is hit in its place.

mod message;

use cni_core::family::Family;
use cni_core::flows::Flow;
use netlink_sys::protocols::NETLINK_NETFILTER;

use crate::netlink::{NetlinkError, Socket, during};

pub use message::Filter;
use message::{Message, read_entry};

/// A UDP connection that the kernel tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it leads.
    pub flow: Flow,
    /// The tuple of its first packet, as the kernel wrote it.
    tuple: Vec<u8>,
    /// The kernel's number for it.
    id: [u8; 4],
    /// The zone that it belongs to, if not the default one.
    zone: Option<[u8; 2]>,
}

/// A netfilter netlink socket in the network namespace that its thread was in when it was opened.
#[derive(Debug)]
pub struct Conntrack(Socket);

impl Conntrack {
    /// Opens a socket in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn open() -> Result<Self, NetlinkError> {
        Socket::of(NETLINK_NETFILTER).map(Self)
    }

    /// Lists the UDP connections that a filter lets through, and `wanted` as well.
    ///
    /// # Errors
    /// When the kernel refuses, such as one without connection tracking (`EINVAL`).
    pub fn udp(&mut self, filter: &Filter, wanted: impl Fn(&Flow) -> bool) -> Result<Vec<Entry>, NetlinkError> {
        let read = |payload: &[u8]| read_entry(payload, |flow| filter.takes(flow) && wanted(flow));
        let found = self.0.dump(&Message::list(filter), read);
        found.map_err(during(|| format!("list the IP{} connections", filter.family)))
    }

    /// Deletes an entry; that it is gone already is no error.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn delete(&mut self, entry: &Entry) -> Result<(), NetlinkError> {
        match self.0.change(Message::delete(entry), 0) {
            Err(cause) if cause.errno() == Some(libc::ENOENT) => Ok(()),
            done => done.map_err(during(|| format!("delete the connection to {}", entry.flow.to))),
        }
    }
}

/// `nfgen_family` of a family.
fn number(family: Family) -> u8 {
    // The constants of libc are as wide as C's `int`; both values fit a byte.
    match family {
        Family::V4 => libc::AF_INET as u8,
        Family::V6 => libc::AF_INET6 as u8,
    }
}
