//! What the kernel tracks of UDP connections: a filtered dump, and deleting one entry.
//!
//! The dump is filtered by the kernel (`CTA_FILTER`, Linux 5.8; older kernels send all) and once more as
//! it is read, so memory holds what was asked for and no more. Several ports are asked for one by one or
//! all at once, whichever is cheaper. An entry is deleted by its own tuple and number, so that not even a
//! later connection between the same ends is hit in its place.

mod message;
mod table;

use std::cell::Cell;

use cni_core::family::Family;
use cni_netfilter::flows::Flow;
use netlink_sys::protocols::NETLINK_NETFILTER;

use crate::netlink::{Cause, NetlinkError, Socket, during};

pub use message::Filter;
use message::{Message, read_entry};
use table::Table;

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
    /// Opens a socket in the network namespace of the calling thread, in which it is to be used.
    ///
    /// # Errors
    /// When the kernel gives no socket.
    pub fn open() -> Result<Self, NetlinkError> {
        Socket::of(NETLINK_NETFILTER).map(Self)
    }

    /// Lists the UDP connections that a filter lets through, and `wanted` as well, which is asked for whatever
    /// the kernel sends.
    ///
    /// # Errors
    /// When the kernel refuses, such as one without connection tracking (`EINVAL`).
    pub fn udp(&mut self, filter: &Filter, wanted: impl Fn(&Flow) -> bool) -> Result<Vec<Entry>, NetlinkError> {
        let wanted = |flow: &Flow| wanted(flow) && filter.takes(flow);
        let found = match Table::observe() {
            // A walk takes the kernel milliseconds even if there is nothing to be found.
            Some(Table { entries: 0, .. }) => Ok(Vec::new()),
            Some(table) if is_walked_for_each_port(table, filter)? => self.walk_for_each_port(filter, wanted),
            Some(_) | None => self.walk(filter, wanted),
        };
        found.map_err(during(|| format!("list the IP{} connections", filter.family)))
    }

    fn walk(&mut self, filter: &Filter, wanted: impl Fn(&Flow) -> bool) -> Result<Vec<Entry>, Cause> {
        self.0.dump(&Message::list(filter), |payload| read_entry(payload, &wanted))
    }

    fn walk_for_each_port(&mut self, filter: &Filter, wanted: impl Fn(&Flow) -> bool) -> Result<Vec<Entry>, Cause> {
        let mut found = Vec::new();
        for port in &filter.ports {
            let is_filtered = Cell::new(true);
            let entries = self.walk(&Filter { ports: vec![*port], ..filter.clone() }, |flow| {
                is_filtered.set(is_filtered.get() && flow.to.port() == *port);
                wanted(flow)
            })?;
            if !is_filtered.get() {
                // A kernel that sends other ports sends all, so this one walk has found whatever there is.
                return Ok(entries);
            }
            found.extend(entries);
        }
        Ok(found)
    }

    /// Deletes entries; that one is gone already is no error. What fails does not keep the rest.
    ///
    /// # Errors
    /// The first refusal of the kernel.
    pub fn delete(&mut self, entries: &[Entry]) -> Result<(), NetlinkError> {
        let mut first = Ok(());
        let refused = |entry: &Entry, cause: Cause| {
            if first.is_ok() && cause.errno() != Some(libc::ENOENT) {
                first = Err(during(|| format!("delete the connection to {}", entry.flow.to))(cause));
            }
        };
        let answered = self.0.series(entries, Message::delete, refused);
        answered.map_err(during(|| "delete connections".to_owned()))?;
        first
    }
}

/// Whether the ports of a filter are looked for one by one. How many connections a single walk would have
/// written is estimated from the first that the kernel comes upon: it keeps them in the order of a hash.
fn is_walked_for_each_port(table: Table, filter: &Filter) -> Result<bool, NetlinkError> {
    let ports = filter.ports.len();
    if ports < 2 || !table.is_walked_for_each(ports, table.entries) {
        return Ok(false);
    }
    let whatever_port = Filter { ports: Vec::new(), ..filter.clone() };
    let first = Socket::of(NETLINK_NETFILTER)?
        .start_of_dump(&Message::list_all(), |payload| read_entry(payload, |flow| whatever_port.takes(flow)).is_some())
        .map_err(during(|| "list some connections".to_owned()))?;
    let count = |entries: usize| u64::try_from(entries).unwrap_or(u64::MAX);
    let taken = count(first.iter().filter(|is_taken| **is_taken).count());
    Ok(table.is_walked_for_each(ports, table.entries.saturating_mul(taken) / count(first.len()).max(1)))
}

/// `nfgen_family` of a family.
fn number(family: Family) -> u8 {
    // The constants of libc are as wide as C's `int`; both values fit a byte.
    match family {
        Family::V4 => libc::AF_INET as u8,
        Family::V6 => libc::AF_INET6 as u8,
    }
}

#[cfg(test)]
mod tests;
