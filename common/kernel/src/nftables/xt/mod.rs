//! Rules of iptables as iptables-nft writes them: instructions of nf_tables and extensions of x_tables.

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::IptablesRule;
use netlink_packet_netfilter::nftables::{ExpressionAttribute, ListAttribute};

use super::instruction;
use super::listing::RawRule;

#[cfg(any(test, feature = "fuzz"))]
pub mod bytes;
mod decode;
mod encode;
mod extension;
mod part;
#[cfg(test)]
mod tests;

pub use encode::{encode, protocol_number};
pub use part::RulePart;

/// A rule and its number in the table.
pub type NumberedRule = (u64, IptablesRule);

/// Reads the message of a rule; `None` for a rule of an unknown kind.
pub fn read_rule(family: Family, chain: &ChainName, payload: &[u8]) -> Option<NumberedRule> {
    let RawRule { handle, comment: _, expressions } = RawRule::read(payload)?;
    let parts: Option<Vec<RulePart>> =
        expressions.into_iter().map(|(name, data)| RulePart::decode(&name, data)).collect();
    Some((handle, decode::decode(family, chain, &parts?)?))
}

/// One part of a rule in the message that adds the rule.
pub fn expression(part: &RulePart) -> ListAttribute<ExpressionAttribute> {
    instruction::expression(part.encode())
}
