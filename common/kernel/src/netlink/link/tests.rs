use crate::netlink::attribute::written;

use super::*;

fn message(index: u32, flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    [&[0; 4][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4], &attributes.concat()].concat()
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    written(kind, &value.to_ne_bytes())
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
