//! Rules of iptables as iptables-nft writes them: instructions of nf_tables and extensions of x_tables.

mod decode;
mod encode;
mod extension;

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::{IptablesRule, Match, Target};
use cni_netfilter::nftables::Equality;
use netlink_packet_netfilter::nftables::{ExpressionAttribute, ListAttribute};

pub use encode::{RulePart, encode, protocol_number};

use super::compile::octets;
use super::instruction;
use super::listing::RawRule;

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

/// The payload of a rule's message as the kernel would list it, with its number; `None` for a rule that is left to iptables.
#[cfg(any(test, feature = "fuzz"))]
#[must_use]
pub fn rule_bytes(family: Family, handle: u64, rule: &IptablesRule) -> Option<Vec<u8>> {
    use netlink_packet_core::Emitable;
    use netlink_packet_netfilter::nftables::RuleAttribute;
    let expressions = encode(family, rule)?.iter().map(expression).collect();
    let attributes = [RuleAttribute::Handle(handle), RuleAttribute::Expressions(expressions)];
    // Behind `struct nfgenmsg`.
    let mut bytes = vec![0; 4 + attributes.as_slice().buffer_len()];
    attributes.as_slice().emit(&mut bytes[4..]);
    Some(bytes)
}

/// Byte strings for wanted rules: the message of each rule contains some of them. `None` if nothing is known of one rule. A listed rule of
/// an unknown kind may be a wanted one only if its message contains them.
///
/// The message of a rule contains its addresses, and the names of the chains that it jumps to. A rule whose message lacks those of a
/// wanted rule is another rule. So the programs are needed only if a rule of the administrator may be a wanted one.
#[derive(Debug)]
pub struct WantedBytes(Option<Vec<Vec<u8>>>);

impl WantedBytes {
    /// For some rules.
    pub fn of(rules: &[&IptablesRule]) -> Self {
        Self(rules.iter().map(|rule| bytes_of(&rule.canonical())).collect())
    }

    /// Whether a message may be of a wanted rule.
    pub fn may_be_in(&self, payload: &[u8]) -> bool {
        self.0.as_ref().is_none_or(|all| all.iter().any(|bytes| contains(payload, bytes)))
    }
}

/// The address in a rule, or else the chain that it jumps to: few other rules contain them. `None` for a rule with neither.
fn bytes_of(rule: &IptablesRule) -> Option<Vec<u8>> {
    if rule.has_words() {
        return None;
    }
    let address = rule.matches.iter().find_map(|part| {
        if let Match::Address(_, Equality::Equal, cidr) = part {
            Some(*cidr).filter(|cidr| cidr.prefix() == cidr.family().bits())
        } else {
            None
        }
    });
    if let Some(address) = address {
        Some(octets(address.address()))
    } else if let Target::Jump(chain) = &rule.target {
        Some(chain.as_str().into())
    } else {
        None
    }
}

fn contains(payload: &[u8], part: &[u8]) -> bool {
    part.is_empty() || payload.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests;
