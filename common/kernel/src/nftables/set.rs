//! Sets and their elements as messages.

use std::net::IpAddr;

use cni_core::family::Family;
use cni_netfilter::nftables::{Set, SetElements, SetId};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE};
use netlink_packet_netfilter::NetfilterMessage;
use netlink_packet_netfilter::nftables::NfTablesMessage;

use super::compile::octets;
use super::instruction::{be32, nested, text};
use super::request::{ChangeMessage, message};

/// `NFTNL_UDATA_SET_KEYBYTEORDER` of libnftnl's `udata.h`, its length, and "big endian": how `nft` is to read the keys.
fn key_order() -> Vec<u8> {
    [&[0, 4], 2_u32.to_ne_bytes().as_slice()].concat()
}

/// The number that `nft` has for the addresses of a family.
const fn type_number(family: Family) -> u32 {
    match family {
        Family::V4 => 7,
        Family::V6 => 8,
    }
}

/// Makes a set.
pub fn add(Set { id, family }: &Set) -> ChangeMessage {
    let mut attributes = vec![text(1, id.table.name.as_str()), text(2, id.name.as_str())];
    let length = u32::from(family.bits() / 8);
    attributes.extend([be32(3, 0), be32(4, type_number(*family)), be32(5, length), be32(10, 1)]);
    attributes.push(DefaultNla::new(13, key_order()));
    (message(id.table.family, NfTablesMessage::Other { message_type: NEW_SET, attributes }), NLM_F_CREATE)
}

/// Asks whether a set exists.
pub fn get(id: &SetId) -> NetfilterMessage {
    let attributes = vec![text(1, id.table.name.as_str()), text(2, id.name.as_str())];
    message(id.table.family, NfTablesMessage::Other { message_type: GET_SET, attributes })
}

/// The question whether a set holds an element.
pub fn get_element(set: &SetId, address: IpAddr) -> NetfilterMessage {
    let attributes = elements_of(set, &[address]);
    message(set.table.family, NfTablesMessage::Other { message_type: GET_ELEMENTS, attributes })
}

/// Numbers of `enum nf_tables_msg_types`.
const NEW_SET: u8 = 9;
const GET_SET: u8 = 10;
const NEW_ELEMENTS: u8 = 12;
const GET_ELEMENTS: u8 = 13;
const DELETE_ELEMENTS: u8 = 14;

/// Puts elements into a set.
pub fn add_elements(elements: &SetElements) -> Vec<ChangeMessage> {
    list(elements, NEW_ELEMENTS, NLM_F_CREATE)
}

/// Takes elements out of a set.
pub fn delete_elements(elements: &SetElements) -> Vec<ChangeMessage> {
    list(elements, DELETE_ELEMENTS, 0)
}

/// So many elements fit the 64 kB of an attribute.
const PIECE: usize = 1024;

fn list(SetElements { set, addresses }: &SetElements, message_type: u8, flags: u16) -> Vec<ChangeMessage> {
    let piece = |addresses: &[IpAddr]| {
        let attributes = elements_of(set, addresses);
        (message(set.table.family, NfTablesMessage::Other { message_type, attributes }), flags)
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
