use proptest::prelude::*;

use super::super::attribute::written;
use super::*;

fn message(index: u32, flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    [&[0; 4][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4], &attributes.concat()].concat()
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    written(kind, &value.to_ne_bytes())
}

#[test]
fn a_bridge_is_read_with_its_vlan_filtering() {
    let data =
        written(libc::IFLA_INFO_DATA | 0x8000, &[number(1, 1500), written(BRIDGE_VLAN_FILTERING, &[1])].concat());
    let info = [written(libc::IFLA_INFO_KIND, b"bridge\0"), data].concat();
    let bytes = message(
        3,
        0x1303,
        &[
            written(libc::IFLA_IFNAME, b"cni0\0"),
            number(libc::IFLA_MTU, 1450),
            written(libc::IFLA_OPERSTATE, &[6]),
            number(libc::IFLA_PROMISCUITY, 2),
            number(libc::IFLA_TXQLEN, 500),
            written(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]),
            written(libc::IFLA_LINKINFO | 0x8000, &info),
        ],
    );
    let link = read_link(&bytes).expect("a link");
    let want = Link {
        index: 3,
        name: "cni0".to_owned(),
        kind: Some("bridge".to_owned()),
        mac: Mac::from_kernel(&[2, 0, 0, 0, 0, 1]),
        mtu: 1450,
        up: true,
        oper_state: OperState::Up,
        promisc: true,
        promiscuity: 2,
        all_multicast: true,
        tx_queue_length: 500,
        vlan_filtering: Some(true),
        ..Link::default()
    };
    assert_eq!(link, want);
}

#[test]
fn a_port_is_read_with_its_master_peer_and_alias() {
    let bytes = message(
        9,
        0x1002,
        &[
            written(libc::IFLA_IFNAME, b"veth0\0"),
            number(libc::IFLA_MASTER, 3),
            number(libc::IFLA_LINK, 2),
            written(libc::IFLA_OPERSTATE, &[3]),
            written(libc::IFLA_IFALIAS, b"of a container\0"),
            written(libc::IFLA_LINKINFO, &written(libc::IFLA_INFO_KIND, b"veth\0")),
        ],
    );
    let link = read_link(&bytes).expect("a link");
    assert_eq!(
        (link.master, link.peer, link.up, link.oper_state),
        (Some(3), Some(2), false, OperState::LowerLayerDown)
    );
    assert_eq!(
        (link.kind.as_deref(), link.alias.as_deref(), link.vlan_filtering),
        (Some("veth"), Some("of a container"), None)
    );
}

#[test]
fn a_card_is_read_with_the_device_that_drives_it() {
    let [name, device, bus] = [
        written(libc::IFLA_IFNAME, b"ens1\0"),
        written(PARENT_DEVICE_NAME, b"0000:05:00.0\0"),
        written(PARENT_DEVICE_BUS, b"pci\0"),
    ];
    for (attributes, want) in [
        (&[name.clone(), device.clone(), bus.clone()][..], Some("pci/0000:05:00.0")),
        (&[name.clone(), device], Some("/0000:05:00.0")),
        (&[name.clone(), bus], None),
        (&[name], None),
    ] {
        let link = read_link(&message(2, 0, attributes)).expect("a link");
        assert_eq!(link.parent_device.as_deref(), want);
    }
}

#[test]
fn odd_and_unknown_attributes_do_no_harm() {
    let bytes = message(
        1,
        0,
        &[
            written(0x3fff, &[1; 100]),
            written(libc::IFLA_MTU, &[1]),
            written(libc::IFLA_OPERSTATE, &[200]),
            written(libc::IFLA_LINKINFO, &[255; 7]),
            number(libc::IFLA_LINK, 0),
            written(libc::IFLA_ADDRESS, &[0; 6]),
            written(libc::IFLA_IFNAME, b"lo"),
            vec![255; 5],
        ],
    );
    let link = read_link(&bytes).expect("a link");
    assert_eq!((link.name.as_str(), link.mtu, link.oper_state), ("lo", 0, OperState::Unknown));
    assert_eq!((link.kind, link.mac, link.peer), (None, None, None));
}

#[test]
fn a_message_without_name_is_no_link() {
    assert_eq!(read_link(&message(1, 0, &[])), None);
    assert_eq!(read_link(&[0; 15]), None);
}

proptest! {
    #[test]
    fn no_message_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_link(&bytes);
    }

    #[test]
    fn no_link_info_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let info = [written(libc::IFLA_INFO_KIND, b"bridge\0"), written(libc::IFLA_INFO_DATA, &bytes), bytes].concat();
        let message = message(1, 0, &[written(libc::IFLA_IFNAME, b"br\0"), written(libc::IFLA_LINKINFO, &info)]);
        prop_assert_eq!(read_link(&message).map(|link| link.name), Some("br".to_owned()));
    }
}
