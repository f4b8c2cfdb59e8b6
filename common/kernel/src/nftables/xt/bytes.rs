//! Encodes a rule as the bytes of its message, for the fuzz targets.

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::IptablesRule;
use netlink_packet_core::Emitable;
use netlink_packet_netfilter::nftables::RuleAttribute;

use super::{encode, expression, read_rule};

/// Reads the payload of a rule's message, with its number; `None` for a rule of an unknown kind.
#[must_use]
pub fn read(family: Family, chain: &ChainName, payload: &[u8]) -> Option<(u64, IptablesRule)> {
    read_rule(family, chain, payload)
}

/// The payload of a rule's message as the kernel would list it, with its number; `None` for a rule that is left to iptables.
#[must_use]
pub fn written(family: Family, handle: u64, rule: &IptablesRule) -> Option<Vec<u8>> {
    let expressions = encode(family, rule)?.iter().map(expression).collect();
    let attributes = [RuleAttribute::Handle(handle), RuleAttribute::Expressions(expressions)];
    let mut bytes = vec![0; HEADER_LENGTH + attributes.as_slice().buffer_len()];
    attributes.as_slice().emit(&mut bytes[HEADER_LENGTH..]);
    Some(bytes)
}

/// Length of `struct nfgenmsg`.
const HEADER_LENGTH: usize = 4;
