use super::*;
use proptest::prelude::*;

const MAC: Hardware = [2, 0, 0, 0, 0, 9];

fn outgoing() -> Outgoing {
    let mut options = DhcpOptions::default();
    options.set(code::CLIENT_IDENTIFIER, b"\0id");
    Outgoing {
        kind: MessageType::Discover,
        xid: 0x0102_0304,
        broadcast: true,
        own: Ipv4Addr::UNSPECIFIED,
        mac: MAC,
        options,
    }
}

/// The same message as a server would send it.
fn answered(message: &Outgoing) -> Vec<u8> {
    let mut bytes = message.bytes();
    bytes[0] = BOOT_REPLY;
    bytes[16..20].copy_from_slice(&[10, 1, 2, 5]);
    bytes
}

#[test]
fn every_field_is_in_its_place() {
    let bytes = Outgoing { own: [10, 1, 2, 3].into(), ..outgoing() }.bytes();
    assert_eq!(bytes.len(), SHORTEST);
    assert_eq!(bytes[..12], [1, 1, 6, 0, 1, 2, 3, 4, 0, 0, 0x80, 0]);
    assert_eq!(bytes[12..28], [10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[28..34], MAC);
    assert_eq!(bytes[236..249], [99, 130, 83, 99, 53, 1, 1, 61, 3, 0, b'i', b'd', 255]);
}

#[test]
fn options_in_other_fields_and_in_parts_belong_together() {
    let mut message = outgoing();
    message.options.set(code::OVERLOAD, &[3]);
    message.options.set(code::DOMAIN_NAME, b"exam");
    let mut bytes = answered(&message);
    bytes[FILE..FILE + 7].copy_from_slice(&[code::DOMAIN_NAME, 4, b'p', b'l', b'e', b'.', code::END]);
    bytes[SNAME..SNAME + 7].copy_from_slice(&[code::PAD, code::DOMAIN_NAME, 3, b'o', b'r', b'g', code::END]);
    let read = Incoming::parse(&bytes).expect("a message");
    assert_eq!(read.options.get(code::DOMAIN_NAME), Some(&b"example.org"[..]));
    bytes[SNAME + 6] = 9;
    bytes[SNAME + 7] = 200;
    assert_eq!(Incoming::parse(&bytes), None, "torn");
}

#[test]
fn what_is_no_answer_is_none() {
    let good = answered(&outgoing());
    assert_eq!(Incoming::parse(&good).map(|message| message.kind), Some(MessageType::Discover));
    type Change = fn(&mut Vec<u8>);
    let changes: [Change; 7] = [
        |bytes| bytes[0] = BOOT_REQUEST,
        |bytes| bytes[1] = 6,
        |bytes| bytes[2] = 16,
        |bytes| bytes[236] = 0,
        |bytes| bytes[242] = 9,
        |bytes| bytes[240] = 54,
        |bytes| bytes.truncate(245),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut bytes = good.clone();
        change(&mut bytes);
        assert_eq!(Incoming::parse(&bytes), None, "{number}");
    }
}

fn datagram(payload: Vec<u8>) -> Datagram {
    Datagram { source: [10, 1, 2, 5].into(), destination: [10, 1, 2, 1].into(), payload }
}

/// The packet with its ports the other way round, which the checksum does not tell.
fn back(datagram: &Datagram) -> Vec<u8> {
    let mut bytes = datagram.bytes();
    bytes[IP_HEADER..IP_HEADER + 4].rotate_left(2);
    bytes
}

#[test]
fn headers_and_checksums_are_those_of_the_standards() {
    let bytes = datagram(b"odd".to_vec()).bytes();
    assert_eq!(bytes[..10], [0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17]);
    assert_eq!(bytes[12..28], [10, 1, 2, 5, 10, 1, 2, 1, 0, 68, 0, 67, 0, 11, bytes[26], bytes[27]]);
    assert_eq!(checksum(&bytes[..20]), 0, "of IP");
    let pseudo = [&bytes[12..20], &[0, UDP, 0, 11], &bytes[20..]].concat();
    assert_eq!(checksum(&pseudo), 0, "of UDP");
}

#[test]
fn only_whole_datagrams_to_the_port_of_clients_are_read() {
    let good = back(&datagram(b"hello".to_vec()));
    assert_eq!(to_client(&good), Some(&b"hello"[..]));
    let padded = [&good[..], &[0; 9]].concat();
    assert_eq!(to_client(&padded), Some(&b"hello"[..]), "Ethernet pads short frames");
    type Change = fn(&mut Vec<u8>);
    let changes: [Change; 8] = [
        |bytes| bytes[0] = 0x65,
        |bytes| bytes[0] = 0x44,
        |bytes| bytes[0] = 0x4f,
        |bytes| bytes[6] = 0x20,
        |bytes| bytes[9] = 6,
        |bytes| bytes[23] = 67,
        |bytes| bytes[25] = 7,
        |bytes| bytes.truncate(30),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut bytes = good.clone();
        change(&mut bytes);
        assert_eq!(to_client(&bytes), None, "{number}");
    }
}

proptest! {
    #[test]
    fn options_are_read_as_they_were_written(
        values in prop::collection::btree_map(1..=254_u8, prop::collection::vec(any::<u8>(), 0..600), 0..6),
        xid: u32,
    ) {
        let mut message = Outgoing { xid, ..outgoing() };
        for (code, value) in values.iter().filter(|(code, _)| ![code::OVERLOAD, code::MESSAGE_TYPE].contains(code)) {
            message.options.set(*code, value);
        }
        let read = Incoming::parse(&answered(&message)).expect("a message");
        message.options.set(code::MESSAGE_TYPE, &[1]);
        prop_assert_eq!(read, Incoming {
            kind: MessageType::Discover, xid, address: [10, 1, 2, 5].into(), mac: MAC, options: message.options,
        });
    }

    #[test]
    fn what_is_sent_is_read(payload in prop::collection::vec(any::<u8>(), 0..1400)) {
        let packet = back(&datagram(payload.clone()));
        prop_assert_eq!(to_client(&packet), Some(&payload[..]));
    }
}
