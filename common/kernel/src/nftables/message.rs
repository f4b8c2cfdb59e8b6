//! Encodes changes and questions as messages of nf_tables, in the types of `netlink-packet-netfilter`.
//!
//! That crate knows only some instructions, so all of them are encoded by name and attributes.

use std::net::IpAddr;

use cni_core::family::Family;
use cni_netfilter::nftables::{
    BaseChain, ChainId, Generation, NftChain, NftChange, NftComment, NftRule, NftTable, Set, SetElements, SetId,
    TableFamily, TableId,
};
use netlink_packet_core::{DefaultNla, NLM_F_APPEND, NLM_F_CREATE};
use netlink_packet_netfilter::nftables::{
    ChainAttribute, ChainMessage, GenMessage, NfTablesMessage, RuleAttribute, RuleMessage, TableAttribute, TableFlags,
    TableMessage,
};
use netlink_packet_netfilter::none::ControlMessage;
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily};

use super::compile::{compile, octets};
use super::instruction::{be32, expression, nested, text};

/// `NFNL_SUBSYS_NFTABLES`: the subsystem of a batch.
const NFTABLES: u16 = 10;

/// `NFTNL_UDATA_RULE_COMMENT` of libnftnl's `udata.h`; those of tables and chains are the same number.
pub const COMMENT: u8 = 0;

/// `NFNL_MSG_BATCH_BEGIN` of `linux/netfilter/nfnetlink.h`.
const BATCH_BEGIN: u8 = 16;
/// `NFNL_BATCH_GENID`.
const BATCH_GENERATION: u16 = 1;

/// The opening and the closing of a batch, which may be bound to a state of nf_tables.
pub fn batch_ends(since: Option<Generation>) -> [NetfilterMessage; 2] {
    let header = || NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, NFTABLES);
    let begin = match since {
        None => ControlMessage::BatchBegin,
        Some(Generation(number)) => {
            ControlMessage::Other { message_type: BATCH_BEGIN, attributes: vec![be32(BATCH_GENERATION, number)] }
        }
    };
    [begin, ControlMessage::BatchEnd].map(|message| NetfilterMessage::new(header(), message))
}

/// The question for the state that all tables are in.
pub fn get_generation() -> NetfilterMessage {
    let header = NetfilterHeader::new(NetfilterProtoFamily::Unspec, 0, 0);
    NetfilterMessage::new(header, NfTablesMessage::GetGen(GenMessage { attributes: Vec::new() }))
}

/// Asks whether a chain exists.
pub fn get_chain(chain: &ChainId) -> NetfilterMessage {
    to_family(chain.table.family, NfTablesMessage::GetChain(ChainMessage { attributes: names(chain) }))
}

/// The question for the chains of all tables of a family.
pub fn get_chains(family: TableFamily) -> NetfilterMessage {
    to_family(family, NfTablesMessage::GetChain(ChainMessage { attributes: Vec::new() }))
}

/// The question for the rules of all chains of a table.
pub fn get_rules_of_table(table: &TableId) -> NetfilterMessage {
    let attributes = vec![RuleAttribute::Table(table.name.to_string())];
    to_family(table.family, NfTablesMessage::GetRule(RuleMessage { attributes }))
}

/// The question for the rules of a chain.
pub fn get_rules(chain: &ChainId) -> NetfilterMessage {
    to_family(chain.table.family, NfTablesMessage::GetRule(RuleMessage { attributes: stands_in(chain) }))
}

/// The question for the rule of a chain that has a number.
pub fn get_rule(chain: &ChainId, handle: u64) -> NetfilterMessage {
    let mut attributes = stands_in(chain);
    attributes.push(RuleAttribute::Handle(handle));
    to_family(chain.table.family, NfTablesMessage::GetRule(RuleMessage { attributes }))
}

/// The messages of a change; `None` for one with words that only `nft` understands.
pub fn change(op: &NftChange) -> Option<Vec<ChangeMessage>> {
    match op {
        NftChange::AddTable(table) => Some(vec![add_table(table)]),
        NftChange::AddChain(chain) => Some(vec![add_chain(chain)]),
        NftChange::AddSet(set) => Some(vec![add_set(set)]),
        NftChange::AddElements(elements) => Some(element_changes(elements, NEW_ELEMENTS, NLM_F_CREATE)),
        NftChange::DeleteElements(elements) => Some(element_changes(elements, DELETE_ELEMENTS, 0)),
        NftChange::FlushChain(chain) => Some(vec![delete_rules(chain, stands_in(chain))]),
        NftChange::DeleteChain(chain) => {
            let inner = NfTablesMessage::DeleteChain(ChainMessage { attributes: names(chain) });
            Some(vec![(to_family(chain.table.family, inner), 0)])
        }
        NftChange::AddRule(rule) => add_rule(rule).map(|request| vec![request]),
        NftChange::DeleteRule(chain, handle) => {
            let mut attributes = stands_in(chain);
            attributes.push(RuleAttribute::Handle(*handle));
            Some(vec![delete_rules(chain, attributes)])
        }
    }
}

/// The attributes that name a chain in a message about it.
fn names(ChainId { table, name }: &ChainId) -> Vec<ChainAttribute> {
    vec![ChainAttribute::Table(table.name.to_string()), ChainAttribute::Name(name.to_string())]
}

/// The attributes that name the chain in a message about its rules.
pub fn stands_in(ChainId { table, name }: &ChainId) -> Vec<RuleAttribute> {
    vec![RuleAttribute::Table(table.name.to_string()), RuleAttribute::Chain(name.to_string())]
}

/// Without a handle, all rules of a chain.
fn delete_rules(chain: &ChainId, attributes: Vec<RuleAttribute>) -> ChangeMessage {
    (to_family(chain.table.family, NfTablesMessage::DeleteRule(RuleMessage { attributes })), 0)
}

/// The data that `nft` shows as a comment: type, length, text and a null byte. A comment has at most 128 bytes.
fn user_data(comment: &NftComment) -> Vec<u8> {
    let text = comment.as_str().as_bytes();
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    [&[COMMENT, length], text, &[0]].concat()
}

fn add_table(NftTable { id, comment }: &NftTable) -> ChangeMessage {
    let mut attributes = vec![TableAttribute::Name(id.name.to_string()), TableAttribute::Flags(TableFlags::empty())];
    attributes.extend(comment.as_ref().map(user_data).map(TableAttribute::UserData));
    (to_family(id.family, NfTablesMessage::NewTable(TableMessage { attributes })), NLM_F_CREATE)
}

/// Adds a table, or leaves an existing one unchanged.
pub fn ensure_table(id: &TableId) -> ChangeMessage {
    let attributes = vec![TableAttribute::Name(id.name.to_string())];
    (to_family(id.family, NfTablesMessage::NewTable(TableMessage { attributes })), NLM_F_CREATE)
}

/// Adds a chain, or leaves an existing one unchanged.
pub fn add_chain(NftChain { id, base, comment }: &NftChain) -> ChangeMessage {
    let mut attributes = names(id);
    if let Some(BaseChain { kind, hook, priority, policy }) = base {
        attributes.push(ChainAttribute::Type(kind.to_string()));
        // NFTA_CHAIN_HOOK with NFTA_HOOK_HOOKNUM and NFTA_HOOK_PRIORITY, which may be negative.
        let place = [be32(1, *hook as u32), DefaultNla::new(2, priority.to_be_bytes().to_vec())];
        attributes.push(ChainAttribute::Other(nested(4, &place)));
        attributes.extend(policy.map(|policy| ChainAttribute::Policy(policy as u32)));
    }
    attributes.extend(comment.as_ref().map(user_data).map(ChainAttribute::UserData));
    (to_family(id.table.family, NfTablesMessage::NewChain(ChainMessage { attributes })), NLM_F_CREATE)
}

/// Adds a rule after all others. A caller that removes `NLM_F_APPEND` adds it before them.
pub fn add_rule(rule: &NftRule) -> Option<ChangeMessage> {
    let family = rule.chain.table.family;
    let instructions = compile(family, &rule.expressions)?;
    let mut attributes = stands_in(&rule.chain);
    attributes.push(RuleAttribute::Expressions(instructions.iter().map(|one| expression(one.encode())).collect()));
    attributes.extend(rule.comment.as_ref().map(user_data).map(RuleAttribute::UserData));
    let inner = NfTablesMessage::NewRule(RuleMessage { attributes });
    Some((to_family(family, inner), NLM_F_CREATE | NLM_F_APPEND))
}

/// The payload of the message that adds a rule; `None` for one with words that only `nft` understands.
#[cfg(any(test, feature = "fuzz"))]
#[must_use]
pub fn rule_bytes(rule: &NftRule) -> Option<Vec<u8>> {
    let (message, _) = add_rule(rule)?;
    Some(crate::netlink::PackedMessage::from(message).bytes)
}

/// A message, and the flags of its header.
pub type ChangeMessage = (NetfilterMessage, u16);

/// A message to tables of a family.
pub fn to_family(family: TableFamily, inner: NfTablesMessage) -> NetfilterMessage {
    let family = match family {
        TableFamily::Ip => NetfilterProtoFamily::IPv4,
        TableFamily::Ip6 => NetfilterProtoFamily::IPv6,
        TableFamily::Inet => NetfilterProtoFamily::Inet,
        TableFamily::Bridge => NetfilterProtoFamily::Bridge,
    };
    NetfilterMessage::new(NetfilterHeader::new(family, 0, 0), inner)
}

/// The number that `nft` has for the addresses of a family.
const fn type_number(family: Family) -> u32 {
    match family {
        Family::V4 => 7,
        Family::V6 => 8,
    }
}

/// Makes a set.
fn add_set(Set { id, family }: &Set) -> ChangeMessage {
    let mut attributes = vec![text(1, id.table.name.as_str()), text(2, id.name.as_str())];
    let length = u32::from(family.bits() / 8);
    attributes.extend([be32(3, 0), be32(4, type_number(*family)), be32(5, length), be32(10, 1)]);
    // `NFTNL_UDATA_SET_KEYBYTEORDER` of libnftnl's `udata.h`, its length, and "big endian": how `nft` is to read the keys.
    attributes.push(DefaultNla::new(13, [&[0, 4], 2_u32.to_ne_bytes().as_slice()].concat()));
    (to_family(id.table.family, NfTablesMessage::Other { message_type: NEW_SET, attributes }), NLM_F_CREATE)
}

/// Asks whether a set exists.
pub fn get_set(id: &SetId) -> NetfilterMessage {
    let attributes = vec![text(1, id.table.name.as_str()), text(2, id.name.as_str())];
    to_family(id.table.family, NfTablesMessage::Other { message_type: GET_SET, attributes })
}

/// The question whether a set holds an element.
pub fn get_element(set: &SetId, address: IpAddr) -> NetfilterMessage {
    let attributes = elements_of(set, &[address]);
    to_family(set.table.family, NfTablesMessage::Other { message_type: GET_ELEMENTS, attributes })
}

/// Numbers of `enum nf_tables_msg_types`.
const NEW_SET: u8 = 9;
const GET_SET: u8 = 10;
const NEW_ELEMENTS: u8 = 12;
const GET_ELEMENTS: u8 = 13;
const DELETE_ELEMENTS: u8 = 14;

/// So many elements fit the 64 kB of an attribute.
const PIECE: usize = 1024;

fn element_changes(SetElements { set, addresses }: &SetElements, message_type: u8, flags: u16) -> Vec<ChangeMessage> {
    let piece = |addresses: &[IpAddr]| {
        let attributes = elements_of(set, addresses);
        (to_family(set.table.family, NfTablesMessage::Other { message_type, attributes }), flags)
    };
    addresses.chunks(PIECE).map(piece).collect()
}

fn elements_of(set: &SetId, addresses: &[IpAddr]) -> Vec<DefaultNla> {
    let elements: Vec<DefaultNla> = addresses.iter().map(|address| element(*address)).collect();
    vec![text(1, set.table.name.as_str()), text(2, set.name.as_str()), nested(3, &elements)]
}

/// `NFTA_LIST_ELEM` with `NFTA_SET_ELEM_KEY`.
fn element(address: IpAddr) -> DefaultNla {
    nested(1, &[nested(1, &[DefaultNla::new(1, octets(address))])])
}
