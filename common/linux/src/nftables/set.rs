//! Sets, maps and their elements as messages.

use cni_core::family::Family;
use cni_netfilter::nftables::{Element, ElementKey, Elements, KeyType, Set, SetId, SetKind};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE};
use netlink_packet_netfilter::NetfilterMessage;
use netlink_packet_netfilter::nftables::NfTablesMessage;

use super::compile::octets;
use super::instruction::{be32, nested, text, verdict};
use super::message::{Request, message};

/// `NFT_SET_MAP`.
const MAP: u32 = 8;
/// `NFT_DATA_VERDICT`.
const VERDICTS: u32 = 0xffff_ff00;
/// `NFTNL_UDATA_SET_KEYBYTEORDER` of libnftnl's `udata.h`: how `nft` is to read the keys, big endian.
const KEY_ORDER: [u8; 6] = order(0, 2);
/// `NFTNL_UDATA_SET_DATABYTEORDER`: verdicts have none.
const DATA_ORDER: [u8; 6] = order(1, 0);

const fn order(kind: u8, order: u32) -> [u8; 6] {
    let [a, b, c, d] = order.to_ne_bytes();
    [kind, 4, a, b, c, d]
}

/// The number that `nft` has for a type, and its length in bytes.
const fn key_type(key: KeyType) -> (u32, u32) {
    match key {
        KeyType::Address(Family::V4) => (7, 4),
        KeyType::Address(Family::V6) => (8, 16),
        KeyType::Port => (13, 2),
    }
}

/// Makes a set or a map.
pub(super) fn add(Set { id, key, kind }: &Set) -> Request {
    let (number, length) = key_type(*key);
    let flags = match kind {
        SetKind::Set => 0,
        SetKind::VerdictMap => MAP,
    };
    let mut attributes = vec![text(1, id.table.name.as_str()), text(2, id.name.as_str())];
    attributes.extend([be32(3, flags), be32(4, number), be32(5, length), be32(10, 1)]);
    let user_data = match kind {
        SetKind::Set => KEY_ORDER.to_vec(),
        SetKind::VerdictMap => {
            attributes.extend([be32(6, VERDICTS), be32(7, 0)]);
            [KEY_ORDER, DATA_ORDER].concat()
        }
    };
    attributes.push(DefaultNla::new(13, user_data));
    (message(id.table.family, NfTablesMessage::Other { message_type: NEW_SET, attributes }), NLM_F_CREATE)
}

/// The question whether there is a set.
pub(super) fn get(id: &SetId) -> NetfilterMessage {
    let attributes = vec![text(1, id.table.name.as_str()), text(2, id.name.as_str())];
    message(id.table.family, NfTablesMessage::Other { message_type: GET_SET, attributes })
}

/// The question whether a set holds an element.
pub(super) fn get_element(set: &SetId, element: &Element) -> NetfilterMessage {
    let attributes = elements_of(set, std::slice::from_ref(element));
    message(set.table.family, NfTablesMessage::Other { message_type: GET_ELEMENTS, attributes })
}

/// Numbers of `enum nf_tables_msg_types`.
const NEW_SET: u8 = 9;
const GET_SET: u8 = 10;
const NEW_ELEMENTS: u8 = 12;
const GET_ELEMENTS: u8 = 13;
const DELETE_ELEMENTS: u8 = 14;

/// Puts elements into a set or a map.
pub(super) fn add_elements(elements: &Elements) -> Vec<Request> {
    list(elements, NEW_ELEMENTS, NLM_F_CREATE)
}

/// Takes elements out of a set or a map.
pub(super) fn delete_elements(elements: &Elements) -> Vec<Request> {
    list(elements, DELETE_ELEMENTS, 0)
}

/// So many elements fit the 64 kB of an attribute, however long the chains are called that they lead to.
const PIECE: usize = 128;

fn list(Elements { set, elements }: &Elements, message_type: u8, flags: u16) -> Vec<Request> {
    let piece = |elements: &[Element]| {
        let attributes = elements_of(set, elements);
        (message(set.table.family, NfTablesMessage::Other { message_type, attributes }), flags)
    };
    elements.chunks(PIECE).map(piece).collect()
}

fn elements_of(set: &SetId, elements: &[Element]) -> Vec<DefaultNla> {
    let elements: Vec<DefaultNla> = elements.iter().map(element).collect();
    vec![text(1, set.table.name.as_str()), text(2, set.name.as_str()), nested(3, &elements)]
}

/// `NFTA_LIST_ELEM` with `NFTA_SET_ELEM_KEY` and `NFTA_SET_ELEM_DATA`.
fn element(element: &Element) -> DefaultNla {
    let key = match element.key {
        ElementKey::Address(address) => octets(address),
        ElementKey::Port(port) => port.to_be_bytes().to_vec(),
    };
    let mut attributes = vec![nested(1, &[DefaultNla::new(1, key)])];
    attributes.extend(element.verdict.as_ref().map(|word| verdict(2, word)));
    nested(1, &attributes)
}
