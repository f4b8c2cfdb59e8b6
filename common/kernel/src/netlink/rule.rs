//! Policy routing rules, which select a routing table.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_model::routing::{KernelRule, SourceRule};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};

use super::address::address_family;
use super::attribute::{Attribute, attributes, field};
use super::error::{NetlinkError, during};
use super::socket::Socket;

/// Length of `struct fib_rule_hdr` of `linux/fib_rules.h`.
const HEADER_LENGTH: usize = 12;
/// Attributes of `linux/fib_rules.h`.
const SOURCE: u16 = 2;
const PRIORITY: u16 = 6;
const SUPPRESS_PREFIX_LENGTH: u16 = 14;
const TABLE: u16 = 15;
const PROTOCOL: u16 = 21;
/// `FR_ACT_TO_TBL` and `FIB_RULE_INVERT`.
const TO_TABLE: u8 = 1;
const INVERT: u32 = 2;

impl Socket {
    /// Lists the rules of a family, in order.
    pub fn rules(&mut self, family: Family) -> Result<Vec<KernelRule>, NetlinkError> {
        let mut question = RuleMessage::default();
        question.header.family = address_family(family);
        self.dump(&RouteNetlinkMessage::GetRule(question), |payload| read(payload, family))
            .map_err(during(|| format!("list the IP{family} rules")))
    }

    /// Adds a rule.
    pub fn add_rule(&mut self, rule: &SourceRule) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::NewRule(message(rule)), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(during(|| format!("add rule {rule}")))
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// If the kernel refuses: `ENOENT` if it does not exist.
    pub fn remove_rule(&mut self, rule: &SourceRule) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelRule(message(rule)), 0).map_err(during(|| format!("remove rule {rule}")))
    }
}

fn message(rule: &SourceRule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = address_family(rule.source.family());
    message.header.src_len = rule.source.prefix();
    message.header.action = RuleAction::ToTable;
    message.attributes.push(RuleAttribute::Source(rule.source.address()));
    match u8::try_from(rule.table) {
        Ok(table) => message.header.table = table,
        Err(_) => message.attributes.push(RuleAttribute::Table(rule.table)),
    }
    message.attributes.extend(rule.priority.map(RuleAttribute::Priority));
    message
}

fn read(payload: &[u8], family: Family) -> Option<KernelRule> {
    let [number, dst_prefix, prefix, tos, table, _, _, action] = field(payload, 0)?;
    let flags = field(payload, 8).map(u32::from_ne_bytes)?;
    if number != u8::from(address_family(family)) {
        return None;
    }
    let attributes: Vec<Attribute<'_>> = attributes(payload.get(HEADER_LENGTH..)?).collect();
    let part = |kind| attributes.iter().find(|attribute| attribute.kind == kind);
    let table = part(TABLE).and_then(|table| table.u32()).unwrap_or(table.into());
    let table = if action == TO_TABLE { table } else { 0 };
    let asks_for_more = !attributes.iter().all(says_nothing_more) || dst_prefix != 0 || tos != 0 || flags & INVERT != 0;
    let source = part(SOURCE).and_then(|source| Cidr::new(source.ip()?, prefix));
    let priority = part(PRIORITY).and_then(|priority| priority.u32()).or(Some(0));
    let by_source = source.filter(|_| table != 0 && !asks_for_more);
    Some(KernelRule { table, by_source: by_source.map(|source| SourceRule { source, table, priority }) })
}

/// Whether an attribute adds no condition to those of a source rule.
fn says_nothing_more(attribute: &Attribute<'_>) -> bool {
    match attribute.kind {
        SOURCE | PRIORITY | TABLE | PROTOCOL => true,
        SUPPRESS_PREFIX_LENGTH => attribute.u32() == Some(u32::MAX),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::Emitable;

    fn bytes(message: &RuleMessage) -> Vec<u8> {
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    #[test]
    fn a_rule_is_read_as_it_was_written() {
        for (source, table) in [("10.1.2.5/32", 100), ("fd00::5/128", 100), ("10.0.0.0/8", 5000)] {
            let source: Cidr = source.parse().expect("CIDR");
            let rule = SourceRule { source, table, priority: Some(7) };
            let read = read(&bytes(&message(&rule)), source.family());
            assert_eq!(read, Some(KernelRule { table, by_source: Some(rule) }));
        }
    }

    #[test]
    fn a_rule_that_asks_for_more_is_somebody_elses() {
        let rule = SourceRule { source: "10.1.2.5/32".parse().expect("CIDR"), table: 100, priority: None };
        let mut marked = message(&rule);
        marked.attributes.push(RuleAttribute::FwMark(1));
        let mut elsewhere = message(&rule);
        elsewhere.header.action = RuleAction::Blackhole;
        for (message, table) in [(marked, 100), (elsewhere, 0)] {
            assert_eq!(read(&bytes(&message), Family::V4), Some(KernelRule { table, by_source: None }));
        }
    }
}
