use netlink_packet_core::{NLM_F_MULTIPART, NetlinkBuffer};
use proptest::prelude::*;

use super::super::attribute::written;
use super::*;

fn datagram(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LENGTH + payload.len()];
    let mut message = NetlinkBuffer::new(&mut bytes);
    message.set_length(u32::try_from(HEADER_LENGTH + payload.len()).expect("short"));
    message.set_message_type(kind);
    message.set_flags(flags);
    message.set_sequence_number(7);
    message.payload_mut().copy_from_slice(payload);
    bytes
}

fn outcomes(bytes: &[u8]) -> Vec<ReplyKind<'_>> {
    Messages::new(bytes).map(|message| message.expect("well-formed").outcome()).collect()
}

fn refused(number: i32, text: &str) -> ReplyKind<'static> {
    ReplyKind::Ended(Err(Errno::new(number).with_kernel_text(Some(KernelText(text.to_owned())))))
}

#[test]
fn a_dump_is_its_data_and_an_end() {
    let mut bytes = datagram(16, NLM_F_MULTIPART, &[1, 2, 3, 4, 5]);
    bytes.extend([0; 3]);
    bytes.extend(datagram(16, NLM_F_MULTIPART, &[6]));
    bytes.extend([0; 3]);
    bytes.extend(datagram(NLMSG_NOOP, 0, &[]));
    bytes.extend(datagram(NLMSG_DONE, NLM_F_MULTIPART, &[0; 4]));
    let want = [ReplyKind::Data(&[1, 2, 3, 4, 5]), ReplyKind::Data(&[6]), ReplyKind::Nothing, ReplyKind::Ended(Ok(()))];
    assert_eq!(outcomes(&bytes), want);
    assert!(Messages::new(&bytes).all(|message| message.expect("well-formed").sequence == 7));
}

#[test]
fn the_end_of_a_dump_may_be_empty_or_an_error() {
    assert_eq!(outcomes(&datagram(NLMSG_DONE, 0, &[])), [ReplyKind::Ended(Ok(()))]);
    let refusal = datagram(NLMSG_DONE, 0, &(-libc::ENODEV).to_ne_bytes());
    assert_eq!(outcomes(&refusal), [ReplyKind::Ended(Err(Errno::new(libc::ENODEV)))]);
}

#[test]
fn the_end_of_a_dump_may_carry_the_text_of_the_kernel() {
    let payload = [&(-libc::EINVAL).to_ne_bytes()[..], &written(EXTENDED_TEXT, b"Invalid header\0")].concat();
    assert_eq!(outcomes(&datagram(NLMSG_DONE, NLM_F_ACK_TLVS, &payload)), [refused(libc::EINVAL, "Invalid header")]);
}

#[test]
fn the_text_of_the_kernel_stands_behind_a_capped_request() {
    let text = [written(2, &[0; 4]), written(EXTENDED_TEXT, b"ipv4: Address already assigned\0")].concat();
    let payload = [&(-libc::EEXIST).to_ne_bytes()[..], &datagram(20, 0, &[]), &text].concat();
    let bytes = datagram(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, &payload);
    assert_eq!(outcomes(&bytes), [refused(libc::EEXIST, "ipv4: Address already assigned")]);
}

#[test]
fn the_text_of_the_kernel_stands_behind_a_whole_request() {
    let text = written(EXTENDED_TEXT, b"Device is busy\0");
    let payload = [&(-libc::EBUSY).to_ne_bytes()[..], &datagram(20, 0, &[9; 7]), &[0], &text].concat();
    let bytes = datagram(NLMSG_ERROR, NLM_F_ACK_TLVS, &payload);
    assert_eq!(outcomes(&bytes), [refused(libc::EBUSY, "Device is busy")]);
}

#[test]
fn an_error_without_text_is_its_number() {
    let payload = [&(-libc::EPERM).to_ne_bytes()[..], &datagram(20, 0, &[9; 8])].concat();
    assert_eq!(outcomes(&datagram(NLMSG_ERROR, 0, &payload)), [ReplyKind::Ended(Err(Errno::new(libc::EPERM)))]);
    assert_eq!(outcomes(&datagram(NLMSG_ERROR, 0, &[])), [ReplyKind::Ended(Err(Errno::new(libc::EBADMSG)))]);
    assert_eq!(outcomes(&datagram(NLMSG_OVERRUN, 0, &[])), [ReplyKind::Ended(Err(Errno::new(libc::ENOBUFS)))]);
}

#[test]
fn a_torn_header_is_an_error_and_the_end() {
    let mut bytes = datagram(NLMSG_NOOP, 0, &[]);
    bytes.extend([99, 0, 0, 0, 16]);
    let read: Vec<_> = Messages::new(&bytes).map(|message| message.map(|message| message.kind)).collect();
    assert_eq!(read, [Ok(NLMSG_NOOP), Err(Cause::Malformed)]);
}

proptest! {
    #[test]
    fn no_datagram_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for message in Messages::new(&bytes).flatten() {
            message.outcome();
        }
    }

    #[test]
    fn no_error_message_panics(done: bool, flags: u16, payload in proptest::collection::vec(any::<u8>(), 0..80)) {
        let bytes = datagram(if done { NLMSG_DONE } else { NLMSG_ERROR }, flags, &payload);
        let ends = matches!(outcomes(&bytes)[..], [ReplyKind::Ended(_)]);
        prop_assert!(ends);
    }
}
