//! A request about the tables of a family, with the flags of its header.

use cni_netfilter::nftables::TableFamily;
use netlink_packet_core::NetlinkSerializable;
use netlink_packet_netfilter::nftables::NfTablesMessage;
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily};

/// A message, and the flags of its header.
pub type ChangeMessage = (NetfilterMessage, u16);

/// A message in the bytes that the kernel reads, without its header. A rule takes a tenth of the memory that its attributes take.
#[derive(Debug)]
pub struct PackedMessage {
    kind: u16,
    bytes: Vec<u8>,
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

/// A message to tables of a family.
pub fn message(family: TableFamily, inner: NfTablesMessage) -> NetfilterMessage {
    let family = match family {
        TableFamily::Ip => NetfilterProtoFamily::IPv4,
        TableFamily::Ip6 => NetfilterProtoFamily::IPv6,
        TableFamily::Inet => NetfilterProtoFamily::Inet,
        TableFamily::Bridge => NetfilterProtoFamily::Bridge,
    };
    NetfilterMessage::new(NetfilterHeader::new(family, 0, 0), inner)
}
