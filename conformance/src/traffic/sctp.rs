//! Sends the first packet of an SCTP connection through a raw socket.
//!
//! Kernels translate SCTP ports even without SCTP support. So a mapping is tested by where this packet arrives, and no
//! answer is needed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto, socket,
};

use crate::namespace::Namespace;

/// The protocol's number.
pub const SCTP: u8 = 132;

/// The time to live of the packet.
const HOPS: u8 = 64;

/// An INIT chunk without parameters: type, flags, length, tag, window, streams out, streams in, sequence number.
const INIT: [u8; 20] = [1, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1];

/// Sends an INIT from inside a namespace, from one of its addresses.
///
/// # Panics
/// When the addresses are not of one family, and when the kernel refuses to send.
pub fn send_sctp(from: &Namespace, source: SocketAddr, server: SocketAddr) {
    let chunk = init(source.port(), server.port());
    from.run(|| match (source.ip(), server.ip()) {
        (IpAddr::V4(own), IpAddr::V4(to)) => send_v4(&[&head_v4(own, to, chunk.len())[..], &chunk].concat(), to),
        (IpAddr::V6(own), IpAddr::V6(to)) => send_v6(&[&head_v6(own, to, chunk.len())[..], &chunk].concat(), to),
        _ => panic!("{source} and {server} are not of one family"),
    });
}

fn send_v4(packet: &[u8], to: Ipv4Addr) {
    let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
    let sent = sendto(raw(AddressFamily::Inet).as_raw_fd(), packet, &to, MsgFlags::empty());
    sent.unwrap_or_else(|error| panic!("send an SCTP packet to {to}: {error}"));
}

fn send_v6(packet: &[u8], to: Ipv6Addr) {
    let to = SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, 0));
    let sent = sendto(raw(AddressFamily::Inet6).as_raw_fd(), packet, &to, MsgFlags::empty());
    sent.unwrap_or_else(|error| panic!("send an SCTP packet to {to}: {error}"));
}

/// A socket that takes packets with the header of IP.
fn raw(family: AddressFamily) -> OwnedFd {
    socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw).expect("open a raw socket")
}

/// The kernel fills in the checksum.
fn head_v4(source: Ipv4Addr, destination: Ipv4Addr, length: usize) -> [u8; 20] {
    let mut head = [0; 20];
    let all = short(head.len() + length);
    head[0] = 0x45;
    head[2..4].copy_from_slice(&all);
    head[8] = HOPS;
    head[9] = SCTP;
    head[12..16].copy_from_slice(&source.octets());
    head[16..20].copy_from_slice(&destination.octets());
    head
}

fn head_v6(source: Ipv6Addr, destination: Ipv6Addr, length: usize) -> [u8; 40] {
    let mut head = [0; 40];
    head[0] = 0x60;
    head[4..6].copy_from_slice(&short(length));
    head[6] = SCTP;
    head[7] = HOPS;
    head[8..24].copy_from_slice(&source.octets());
    head[24..40].copy_from_slice(&destination.octets());
    head
}

fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("a packet is short").to_be_bytes()
}

/// Ports, no tag yet, the checksum over all with itself as zero, and the chunk.
fn init(source: u16, destination: u16) -> Vec<u8> {
    let mut packet = [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0; 8], &INIT].concat();
    let checksum = crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}

/// RFC 9260, appendix A.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32| (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
    let all = bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)));
    !all
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    /// RFC 3720, appendix B.4.
    #[test]
    fn the_checksum_is_that_of_the_castagnoli_polynomial() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
