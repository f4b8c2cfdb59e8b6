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
}
