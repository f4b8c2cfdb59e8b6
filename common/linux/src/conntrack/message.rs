//! The messages of ctnetlink, as `linux/netfilter/nfnetlink_conntrack.h` lays them out.

use std::net::{IpAddr, SocketAddr};

use cni_core::family::Family;
use cni_core::flows::Flow;
use netlink_packet_core::{NLA_F_NESTED, NetlinkSerializable};

use super::{Entry, number};
use crate::netlink::attribute::{Attribute, attributes, field, written};

/// `NFNL_SUBSYS_CTNETLINK`, as it stands in a message type.
const SUBSYSTEM: u16 = 1 << 8;
const GET: u16 = SUBSYSTEM | 1;
const DELETE: u16 = SUBSYSTEM | 2;

/// Length of `struct nfgenmsg`.
const HEADER_LENGTH: usize = 4;

const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;
const FILTER: u16 = 25;

const TUPLE_IP: u16 = 1;
const TUPLE_PROTO: u16 = 2;

const IP_V4_SOURCE: u16 = 1;
const IP_V4_DESTINATION: u16 = 2;
const IP_V6_SOURCE: u16 = 3;
const IP_V6_DESTINATION: u16 = 4;

const PROTO_NUMBER: u16 = 1;
const PROTO_SOURCE_PORT: u16 = 2;
const PROTO_DESTINATION_PORT: u16 = 3;

const FILTER_ORIGINAL_FLAGS: u16 = 1;
const FILTER_REPLY_FLAGS: u16 = 2;

/// `CTA_FILTER_F_…` of `net/netfilter/nf_internals.h` in the kernel's sources: what of a tuple counts.
const COUNTS_IP_SOURCE: u32 = 1 << 0;
const COUNTS_PROTO_NUMBER: u32 = 1 << 3;
const COUNTS_PROTO_DESTINATION_PORT: u32 = 1 << 5;

const UDP: u8 = 17;

/// Which UDP connections are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Their family.
    pub family: Family,
    /// The port to which their first packet was sent, if it has to be a certain one.
    pub port: Option<u16>,
    /// The address from which they are answered, if it has to be a certain one.
    pub answered_by: Option<IpAddr>,
}

impl Filter {
    /// Whether a connection passes; kernels that know no filter send all.
    pub(super) fn takes(&self, flow: &Flow) -> bool {
        let Self { family, port, answered_by } = *self;
        let Flow { to, answered_by: from } = *flow;
        family == Family::of(to.ip())
            && port.is_none_or(|port| port == to.port())
            && answered_by.is_none_or(|address| address == from.ip())
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Message {
    kind: u16,
    bytes: Vec<u8>,
}

impl Message {
    /// Asks for the connections that pass a filter.
    pub(super) fn list(filter: &Filter) -> Self {
        let Filter { family, port, answered_by } = *filter;
        let (mut flags, mut proto) = (COUNTS_PROTO_NUMBER, written(PROTO_NUMBER, &[UDP]));
        if let Some(port) = port {
            flags |= COUNTS_PROTO_DESTINATION_PORT;
            proto.extend(written(PROTO_DESTINATION_PORT, &port.to_be_bytes()));
        }
        let mut counts = written(FILTER_ORIGINAL_FLAGS, &flags.to_ne_bytes());
        let mut attributes = nested(TUPLE_ORIGINAL, &nested(TUPLE_PROTO, &proto));
        // Of IPv6 addresses, Linux 5.8 to 6.18 at least let through all but the one that is asked for.
        if let Some(IpAddr::V4(address)) = answered_by {
            counts.extend(written(FILTER_REPLY_FLAGS, &COUNTS_IP_SOURCE.to_ne_bytes()));
            attributes.extend(nested(TUPLE_REPLY, &nested(TUPLE_IP, &written(IP_V4_SOURCE, &address.octets()))));
        }
        attributes.extend(nested(FILTER, &counts));
        Self::new(GET, family, &attributes)
    }

    /// Asks to delete an entry: by the tuple as it was read, and by its number.
    pub(super) fn delete(entry: &Entry) -> Self {
        let Entry { flow, tuple, id, zone } = entry;
        let mut attributes = nested(TUPLE_ORIGINAL, tuple);
        attributes.extend(written(ID, id));
        attributes.extend(zone.iter().flat_map(|zone| written(ZONE, zone)));
        Self::new(DELETE, Family::of(flow.to.ip()), &attributes)
    }

    /// Version 0 of the subsystem, and no resource.
    fn new(kind: u16, family: Family, attributes: &[u8]) -> Self {
        let header: [u8; HEADER_LENGTH] = [number(family), 0, 0, 0];
        Self { kind, bytes: [&header[..], attributes].concat() }
    }
}

impl NetlinkSerializable for Message {
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

fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    written(kind | NLA_F_NESTED, attributes)
}

/// Reads an entry; `None` when it is none of UDP, or not wanted.
pub(super) fn read_entry(payload: &[u8], wanted: impl Fn(&Flow) -> bool) -> Option<Entry> {
    let (mut original, mut reply, mut id, mut zone) = (None, None, None, None);
    for attribute in attributes(payload.get(HEADER_LENGTH..)?) {
        match attribute.kind {
            TUPLE_ORIGINAL => original = Some(attribute),
            TUPLE_REPLY => reply = Some(attribute),
            ID => id = field(attribute.value, 0),
            ZONE => zone = field(attribute.value, 0),
            _ => (),
        }
    }
    let original = original?;
    let flow = Flow {
        to: read_end(original, [IP_V4_DESTINATION, IP_V6_DESTINATION], PROTO_DESTINATION_PORT)?,
        answered_by: read_end(reply?, [IP_V4_SOURCE, IP_V6_SOURCE], PROTO_SOURCE_PORT)?,
    };
    if wanted(&flow) { Some(Entry { flow, tuple: original.value.to_vec(), id: id?, zone }) } else { None }
}

/// One end of a UDP tuple.
fn read_end(tuple: Attribute<'_>, addresses: [u16; 2], port: u16) -> Option<SocketAddr> {
    let part = |kind| tuple.nested().find(|attribute| attribute.kind == kind);
    let (ip, proto) = (part(TUPLE_IP)?, part(TUPLE_PROTO)?);
    let number = proto.nested().find(|attribute| attribute.kind == PROTO_NUMBER)?;
    if number.u8() != Some(UDP) {
        return None;
    }
    let address = ip.nested().find(|attribute| addresses.contains(&attribute.kind))?.ip()?;
    let port = proto.nested().find(|attribute| attribute.kind == port)?;
    Some(SocketAddr::new(address, field(port.value, 0).map(u16::from_be_bytes)?))
}

#[cfg(test)]
mod tests;
