//! Kernels that know no filter, played by the test. The real one is asked in `tests/conntrack.rs`.

use std::os::unix::net::UnixDatagram;

use netlink_packet_core::{NLM_F_MULTIPART, NLMSG_DONE, NetlinkBuffer};

use super::message::tests::{entry, tuple};
use super::*;
use crate::netlink::played;

const CLIENT: &str = "192.0.2.2:4711";

/// An answer to the request of this number: connections of UDP to the host at these ports, one each.
fn dumped(sequence: u32, ports: &[u16]) -> Vec<u8> {
    let data = |port: &u16| {
        let host = format!("192.0.2.1:{port}");
        message(256, sequence, &entry(&tuple(CLIENT, &host, 17), &tuple(&host, CLIENT, 17)))
    };
    let entries: Vec<u8> = ports.iter().flat_map(data).collect();
    [entries, message(NLMSG_DONE, sequence, &[0; 4])].concat()
}

fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 16 + payload.len()];
    let mut message = NetlinkBuffer::new(&mut bytes);
    message.set_length(u32::try_from(16 + payload.len()).expect("a short message"));
    message.set_message_type(kind);
    message.set_flags(NLM_F_MULTIPART);
    message.set_sequence_number(sequence);
    message.payload_mut().copy_from_slice(payload);
    bytes
}

/// What is found at three ports one by one when the kernel answers like this, and in how many walks.
fn found(answers: &[Vec<u8>]) -> (Vec<u16>, usize) {
    let (socket, kernel) = played(answers);
    let filter = Filter { family: Family::V4, to: None, ports: vec![53, 80, 443], led_to: None };
    let entries = Conntrack(socket).walk_for_each_port(&filter, |flow| filter.takes(flow)).expect("a list");
    (entries.iter().map(|entry| entry.flow.to.port()).collect(), datagrams(&kernel))
}

fn datagrams(kernel: &UnixDatagram) -> usize {
    kernel.set_nonblocking(true).expect("set");
    std::iter::from_fn(|| kernel.recv(&mut [0; 4096]).ok()).count()
}

#[test]
fn a_kernel_that_filters_is_asked_for_each_port() {
    assert_eq!(found(&[dumped(1, &[53, 53]), dumped(2, &[]), dumped(3, &[443])]), (vec![53, 53, 443], 3));
}

#[test]
fn what_a_kernel_sends_that_filters_nothing_is_found_once_and_in_one_walk_as_a_rule() {
    let all = [53, 80, 99, 443];
    assert_eq!(found(&[dumped(1, &all)]), (vec![53, 80, 443], 1));
    // Where there is nothing but the first port, that it is all shows in the second walk.
    assert_eq!(found(&[dumped(1, &[53]), dumped(2, &[53])]), (vec![53], 2));
    assert_eq!(found(&[dumped(1, &[53]), dumped(2, &[53, 80])]), (vec![53, 80], 2));
}
