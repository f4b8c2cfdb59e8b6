//! Encodes a rule as the bytes of its message, for the fuzz targets.

use cni_netfilter::nftables::{ListedRule, NftRule, TableFamily};
use netlink_packet_core::NetlinkSerializable;

use super::{listing, message};

/// Reads the payload of a rule's message; `None` when it lacks what every rule has.
#[must_use]
pub fn read(table: TableFamily, payload: &[u8]) -> Option<ListedRule> {
    listing::read_rule(table, payload)
}

/// The payload of the message that adds a rule; `None` for one with words that only `nft` understands.
#[must_use]
pub fn written(rule: &NftRule) -> Option<Vec<u8>> {
    let (message, _) = message::add_rule(rule)?;
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    Some(bytes)
}
