//! Asks an address for an echo, as ping(8) does.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};

/// `ICMP_ECHO`, `ICMP_ECHOREPLY`, `ICMPV6_ECHO_REQUEST` and `ICMPV6_ECHO_REPLY`.
const REQUEST_V4: u8 = 8;
const REPLY_V4: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;

/// Sends one request in the network namespace of the calling thread, and returns whether it was answered in time.
///
/// # Errors
/// When the kernel gives no socket, or has no way to the address.
pub fn echo(to: IpAddr, patience: Duration) -> io::Result<bool> {
    let (family, protocol) = match to {
        IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp),
        IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6),
    };
    // The calls are the same for every kind of socket that has messages.
    let asking = UdpSocket::from(socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?);
    asking.connect(SocketAddr::new(to, 0))?;
    let identity = u16::try_from(std::process::id() & 0xffff).unwrap_or_default();
    asking.send(&request(to, identity))?;
    let end = Instant::now() + patience;
    let mut buffer = [0; 256];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        asking.set_read_timeout(Some(left))?;
        match asking.recv(&mut buffer) {
            Ok(length) if is_reply(to, identity, buffer.get(..length).unwrap_or_default()) => return Ok(true),
            Ok(_) => {}
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The kernel adds the checksum of IPv6.
fn request(to: IpAddr, identity: u16) -> [u8; 8] {
    let [high, low] = identity.to_be_bytes();
    let kind = if to.is_ipv4() { REQUEST_V4 } else { REQUEST_V6 };
    let mut message = [kind, 0, 0, 0, high, low, 0, 1];
    if to.is_ipv4() {
        let words = message.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let [.., high, low] = (!folded).to_be_bytes();
        (message[2], message[3]) = (high, low);
    }
    message
}

/// A raw socket of IPv4 gets the IP header as well.
fn is_reply(to: IpAddr, identity: u16, bytes: &[u8]) -> bool {
    let (message, reply) = match to {
        IpAddr::V4(_) => {
            let length = bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4);
            (bytes.get(length..).unwrap_or_default(), REPLY_V4)
        }
        IpAddr::V6(_) => (bytes, REPLY_V6),
    };
    message.first() == Some(&reply) && message.get(4..6) == Some(&identity.to_be_bytes()[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_checksum_and_its_reply_is_known() {
        let v4: IpAddr = "192.0.2.1".parse().expect("an address");
        let message = request(v4, 0x1234);
        let sum: u32 = message.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        let header = [[0x45].to_vec(), vec![0; 19]].concat();
        let reply = |kind: u8| [header.clone(), vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1]].concat();
        assert!(is_reply(v4, 0x1234, &reply(0)) && !is_reply(v4, 0x1234, &reply(8)) && !is_reply(v4, 1, &reply(0)));
        let v6: IpAddr = "2001:db8::1".parse().expect("an address");
        assert!(is_reply(v6, 0x1234, &[129, 0, 0, 0, 0x12, 0x34, 0, 1]));
        for length in 0..28 {
            is_reply(v4, 0x1234, &reply(0)[..length]);
        }
    }
}
