use netlink_packet_core::Emitable;

use crate::netlink::attribute::{Attribute, written};

use super::*;

const PVID: u16 = 2;
const UNTAGGED: u16 = 4;
const BEGIN: u16 = 8;
const END: u16 = 16;

fn info(flags: u16, id: u16) -> Vec<u8> {
    written(VLAN_INFO, &[flags.to_ne_bytes(), id.to_ne_bytes()].concat())
}

fn message(infos: &[Vec<u8>]) -> Vec<u8> {
    [vec![0; HEADER_LENGTH], written(libc::IFLA_AF_SPEC | 0x8000, &infos.concat())].concat()
}

fn vlan(id: u16) -> VlanId {
    VlanId::new(id).expect("a VLAN")
}

fn tagged(id: u16) -> BridgeVlan {
    BridgeVlan { id: vlan(id), pvid: false, untagged: false }
}

/// The flags and identifiers in a request, after those for the bridge itself.
fn sent(message: &LinkMessage) -> Vec<(u16, u16)> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    assert_eq!(bytes[0], u8::try_from(libc::AF_BRIDGE).expect("small"));
    assert_eq!(read_index(&bytes), Some(9));
    let spec = attributes(&bytes[HEADER_LENGTH..]).next().expect("IFLA_AF_SPEC");
    assert_eq!(spec.kind, libc::IFLA_AF_SPEC);
    let mut parts = spec.nested();
    assert_eq!(parts.next(), Some(Attribute { kind: 0, value: &1_u16.to_ne_bytes() }), "BRIDGE_FLAGS_MASTER");
    parts
        .map(|part| {
            assert_eq!((part.kind, part.value.len()), (VLAN_INFO, 4));
            let number = |offset| field(part.value, offset).map(u16::from_ne_bytes).expect("two bytes");
            (number(0), number(2))
        })
        .collect()
}

#[test]
fn single_vlans_and_ranges_are_read() {
    let bytes = message(&[info(PVID | UNTAGGED, 1), info(BEGIN, 20), info(END, 22), info(UNTAGGED, 30)]);
    let want = [
        BridgeVlan { id: vlan(1), pvid: true, untagged: true },
        tagged(20),
        tagged(21),
        tagged(22),
        BridgeVlan { id: vlan(30), pvid: false, untagged: true },
    ];
    assert_eq!(read_vlans(&bytes), want);
}

#[test]
fn a_range_without_end_is_left_out() {
    assert_eq!(read_vlans(&message(&[info(BEGIN, 20), info(0, 25), info(END, 30)])), [tagged(25), tagged(30)]);
    assert_eq!(read_vlans(&[0; HEADER_LENGTH]), []);
}

#[test]
fn requests_name_one_vlan_or_both_ends_of_a_range() {
    let flags = BridgeVlanInfoFlags::Pvid | BridgeVlanInfoFlags::Untagged;
    assert_eq!(sent(&vlan_message(9, &(vlan(5)..=vlan(5)), flags)), [(PVID | UNTAGGED, 5)]);
    assert_eq!(
        sent(&vlan_message(9, &(vlan(2)..=VlanId::LAST), BridgeVlanInfoFlags::empty())),
        [(BEGIN, 2), (END, 4094)]
    );
}
