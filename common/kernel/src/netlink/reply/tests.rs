use super::super::attribute::written;
use super::*;
use netlink_packet_core::{NLM_F_MULTIPART, NetlinkBuffer};

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
fn an_end_is_a_success_or_the_number_of_an_error_perhaps_with_a_text_of_the_kernel() {
    let number = |errno: i32, rest: &[&[u8]]| [&(-errno).to_ne_bytes()[..], &rest.concat()].concat();
    let text = written(EXTENDED_TEXT, b"Device is busy\0");
    let request = |length: usize| datagram(20, 0, &vec![9; length]);
    let plain = |errno| ReplyKind::Ended(Err(Errno::new(errno)));
    for (kind, flags, payload, want) in [
        (NLMSG_DONE, 0, Vec::new(), ReplyKind::Ended(Ok(()))),
        (NLMSG_DONE, 0, number(libc::ENODEV, &[]), plain(libc::ENODEV)),
        (NLMSG_DONE, NLM_F_ACK_TLVS, number(libc::EINVAL, &[&text]), refused(libc::EINVAL, "Device is busy")),
        (
            NLMSG_ERROR,
            NLM_F_CAPPED | NLM_F_ACK_TLVS,
            number(libc::EEXIST, &[&request(0), &written(2, &[0; 4]), &text]),
            refused(libc::EEXIST, "Device is busy"),
        ),
        (
            NLMSG_ERROR,
            NLM_F_ACK_TLVS,
            number(libc::EBUSY, &[&request(7), &[0], &text]),
            refused(libc::EBUSY, "Device is busy"),
        ),
        (NLMSG_ERROR, 0, number(libc::EPERM, &[&request(8)]), plain(libc::EPERM)),
        (NLMSG_ERROR, 0, Vec::new(), plain(libc::EBADMSG)),
        (NLMSG_OVERRUN, 0, Vec::new(), plain(libc::ENOBUFS)),
    ] {
        assert_eq!(outcomes(&datagram(kind, flags, &payload)), [want]);
    }
}

#[test]
fn a_torn_header_is_an_error_and_the_end() {
    let mut bytes = datagram(NLMSG_NOOP, 0, &[]);
    bytes.extend([99, 0, 0, 0, 16]);
    let read: Vec<_> = Messages::new(&bytes).map(|message| message.map(|message| message.kind)).collect();
    assert_eq!(read, [Ok(NLMSG_NOOP), Err(Cause::Malformed)]);
}
