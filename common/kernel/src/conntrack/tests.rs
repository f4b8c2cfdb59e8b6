use cni_core::family::Family;
use netlink_packet_core::{NLMSG_ERROR, NetlinkBuffer};

use crate::netlink::played;

use super::*;

/// What comes of two filters when the kernel answers both of them with an error number.
fn answered(errno: i32) -> Result<bool, NetlinkError> {
    let answer = |sequence: u32| {
        let mut bytes = vec![0; 20];
        let mut message = NetlinkBuffer::new(&mut bytes);
        message.set_length(20);
        message.set_message_type(NLMSG_ERROR);
        message.set_sequence_number(sequence);
        message.payload_mut().copy_from_slice(&(-errno).to_ne_bytes());
        bytes
    };
    let (socket, _kernel) = played(&[answer(1), answer(2)]);
    let filter = |port| FlowFilter { family: Family::V4, to: None, ports: vec![port], led_to: None };
    Conntrack(socket).delete_all(&[filter(53), filter(54)])
}

#[test]
fn a_kernel_that_cannot_filter_what_it_deletes_says_so() {
    assert_eq!((answered(0), answered(libc::EINVAL)), (Ok(true), Ok(false)));
    let error = answered(libc::EPERM).expect_err("refused");
    assert_eq!((error.to_string(), error.errno()), ("failed to delete connections by a filter".to_owned(), Some(1)));
}

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("address and port")
}

/// A tuple as the kernel writes it.
fn tuple(source: &str, destination: &str, proto: u8) -> Vec<u8> {
    let (source, destination) = (socket(source), socket(destination));
    let ip = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            [written(IP_V4_SOURCE, &from.octets()), written(IP_V4_DESTINATION, &to.octets())].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            [written(IP_V6_SOURCE, &from.octets()), written(IP_V6_DESTINATION, &to.octets())].concat()
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => panic!("one family"),
    };
    let ports = [
        written(PROTO_NUMBER, &[proto]),
        written(PROTO_SOURCE_PORT, &source.port().to_be_bytes()),
        written(PROTO_DESTINATION_PORT, &destination.port().to_be_bytes()),
    ];
    [nested(TUPLE_IP, &ip), nested(TUPLE_PROTO, &ports.concat())].concat()
}

fn entry(original: &[u8], reply: &[u8]) -> Vec<u8> {
    let attributes =
        [nested(TUPLE_ORIGINAL, original), nested(TUPLE_REPLY, reply), written(3, &[0; 4]), written(ID, &[1, 2, 3, 4])];
    [&[2, 0, 0, 0][..], &attributes.concat()].concat()
}

#[test]
fn an_entry_is_read_with_both_ends_of_its_translation() {
    let original = tuple("192.0.2.2:4711", "192.0.2.1:8080", UDP);
    let bytes = entry(&original, &tuple("10.88.0.5:80", "192.0.2.2:4711", UDP));
    let read = read_entry(&bytes, |_| true).expect("an entry");
    let flow = Flow { to: socket("192.0.2.1:8080"), answered_by: socket("10.88.0.5:80") };
    assert_eq!(read, TrackedConnection { flow, tuple: original, id: [1, 2, 3, 4], zone: None });
    assert_eq!(read_entry(&bytes, |seen| *seen != flow), None);
    let tcp = entry(&tuple("192.0.2.2:4711", "192.0.2.1:80", 6), &tuple("192.0.2.1:80", "192.0.2.2:4711", 6));
    assert_eq!(read_entry(&tcp, |_| true), None);
}

#[test]
fn an_entry_of_ipv6_and_of_a_zone_is_read() {
    let original = tuple("[2001:db8::2]:4711", "[2001:db8::1]:8080", UDP);
    let mut bytes = entry(&original, &tuple("[fd00:88::5]:80", "[2001:db8::2]:4711", UDP));
    bytes.extend(written(ZONE, &7_u16.to_be_bytes()));
    let read = read_entry(&bytes, |_| true).expect("an entry");
    assert_eq!((read.flow.answered_by, read.zone), (socket("[fd00:88::5]:80"), Some([0, 7])));
    let delete = delete(&read).bytes;
    assert_eq!(delete[0], libc::AF_INET6 as u8);
    assert!(delete.ends_with(&written(ZONE, &[0, 7])), "{delete:?}");
}
