//! A request about the tables of a family, with the flags of its header.

use cni_netfilter::nftables::TableFamily;
use netlink_packet_netfilter::nftables::NfTablesMessage;
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily};

/// A message, and the flags of its header.
pub type ChangeMessage = (NetfilterMessage, u16);

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
