//! A message in the bytes that the kernel reads.

use netlink_packet_core::NetlinkSerializable;
use netlink_packet_netfilter::NetfilterMessage;

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
