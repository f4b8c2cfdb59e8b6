//! UDP in IPv4 (RFC 791, RFC 768), as a packet socket sends and receives it: without the Ethernet header.

use std::net::Ipv4Addr;

/// The ports of servers and of clients.
const SERVER: u16 = 67;
const CLIENT: u16 = 68;

const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;
const TIME_TO_LIVE: u8 = 64;
/// The bits of the fragment field that are set in a fragment: "more fragments", and the offset.
const FRAGMENT: u16 = 0x3fff;

/// A message of a client on its way to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// From.
    pub source: Ipv4Addr,
    /// To.
    pub destination: Ipv4Addr,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Datagram {
    /// The packet.
    pub fn bytes(&self) -> Vec<u8> {
        let Self { source, destination, payload } = self;
        let udp_length = length_of(UDP_HEADER + payload.len());
        let mut udp = Vec::new();
        udp.extend(CLIENT.to_be_bytes());
        udp.extend(SERVER.to_be_bytes());
        udp.extend(udp_length.to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(payload);
        let pseudo = [&source.octets()[..], &destination.octets(), &[0, UDP], &udp_length.to_be_bytes(), &udp].concat();
        // Zero would mean that there is none.
        let sum = match checksum(&pseudo) {
            0 => u16::MAX,
            sum => sum,
        };
        udp[6..UDP_HEADER].copy_from_slice(&sum.to_be_bytes());
        [header(*source, *destination, udp.len()), udp].concat()
    }
}

fn header(source: Ipv4Addr, destination: Ipv4Addr, content: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend(length_of(IP_HEADER + content).to_be_bytes());
    header.extend([0, 0, 0, 0, TIME_TO_LIVE, UDP, 0, 0]);
    header.extend(source.octets());
    header.extend(destination.octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// A message is a few hundred bytes.
fn length_of(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// The complement of the sum in ones' complement (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
    let mut sum: u32 = words.sum();
    while sum > u32::from(u16::MAX) {
        sum = (sum & u32::from(u16::MAX)) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

/// The payload of a packet from a server to a client; `None` for other or truncated packets. The UDP checksum is
/// ignored: that of a server on the same machine is incomplete when it arrives.
pub fn to_client(packet: &[u8]) -> Option<&[u8]> {
    let length = packet.get(2..).and_then(<[u8]>::first_chunk).map(|bytes| u16::from_be_bytes(*bytes))?;
    let packet = packet.get(..usize::from(length))?;
    let first = *packet.first()?;
    let udp = packet.get(usize::from(first & 0xf) * 4..)?;
    let is_whole = u16::from_be_bytes(*packet.get(6..)?.first_chunk()?) & FRAGMENT == 0;
    if first >> 4 != 4 || first & 0xf < 5 || !is_whole || *packet.get(9)? != UDP {
        return None;
    }
    let [_, _, port_high, port_low, length_high, length_low] = *udp.first_chunk()?;
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    (u16::from_be_bytes([port_high, port_low]) == CLIENT).then_some(())?;
    udp.get(UDP_HEADER..length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        fn what_is_sent_is_read(payload in prop::collection::vec(any::<u8>(), 0..1400)) {
            let packet = back(&datagram(payload.clone()));
            prop_assert_eq!(to_client(&packet), Some(&payload[..]));
        }
    }
}
