//! Captures packets on a link with a packet socket.
//!
//! The socket sees packets as they are on the wire, after all masquerading, in both directions. It is in its namespace
//! from the start, so no packet is missed after `start`.

use std::io::{Cursor, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::sctp::SCTP;
use crate::namespace::Namespace;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The addresses of a packet; ports are 0 where the protocol has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The source.
    pub source: SocketAddr,
    /// The destination.
    pub destination: SocketAddr,
    /// The protocol number, 6 for TCP, 17 for UDP, 132 for SCTP.
    pub protocol: u8,
}

/// A running capture of all IP packets that pass a link, in both directions.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    packets: Arc<Mutex<Vec<Packet>>>,
    thread: Option<JoinHandle<()>>,
}

impl Capture {
    /// Starts to capture.
    ///
    /// # Panics
    /// When the namespace has no such link.
    pub fn start(namespace: &Namespace, link: &str) -> Self {
        let (wire, index) = namespace.run(|| {
            let index = nix::net::if_::if_nametoindex(link).unwrap_or_else(|error| panic!("find link {link}: {error}"));
            (open(), index)
        });
        let stop = Arc::new(AtomicBool::new(false));
        let packets = Arc::new(Mutex::new(Vec::new()));
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&packets));
        let thread = thread::spawn(move || listen(&wire, index as usize, &stopped, &seen));
        Self { stop, packets, thread: Some(thread) }
    }

    /// Returns what has passed so far.
    ///
    /// # Panics
    /// When the capture itself failed.
    pub fn so_far(&self) -> Vec<Packet> {
        self.packets.lock().expect("no capture panicked").clone()
    }

    /// Stops, a moment later, and returns what passed.
    ///
    /// # Panics
    /// When the capture itself failed.
    pub fn stop(mut self) -> Vec<Packet> {
        thread::sleep(Duration::from_millis(50));
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("a capture runs until stopped").join();
        ended.expect("the capture must not fail");
        self.so_far()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if matches!(ended, Some(Err(_))) && !thread::panicking() {
            panic!("a capture panicked");
        }
    }
}

fn open() -> OwnedFd {
    let wire = socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
        .expect("open a packet socket");
    setsockopt(&wire, sockopt::ReceiveTimeout, &TimeVal::milliseconds(10)).expect("set a receive timeout");
    wire
}

fn listen(wire: &OwnedFd, index: usize, stop: &AtomicBool, packets: &Mutex<Vec<Packet>>) {
    let mut buffer = [0; 128];
    while !stop.load(Ordering::Relaxed) {
        match recvfrom::<LinkAddr>(wire.as_raw_fd(), &mut buffer) {
            Ok((length, from)) => {
                let on_link = from.is_some_and(|from| from.ifindex() == index);
                if let Some(packet) = on_link.then(|| parse(&buffer[..length])).flatten() {
                    packets.lock().expect("no reader panicked").push(packet);
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => panic!("receive packets: {error}"),
        }
    }
}

/// Reads the addresses of an IP packet; other packets have none.
fn parse(bytes: &[u8]) -> Option<Packet> {
    let (protocol, source, destination, payload) = match bytes.first()? >> 4 {
        4 => {
            let header = usize::from(bytes[0] & 15) * 4;
            (*bytes.get(9)?, v4(bytes.get(12..16)?)?, v4(bytes.get(16..20)?)?, bytes.get(header..)?)
        }
        6 => (*bytes.get(6)?, v6(bytes.get(8..24)?)?, v6(bytes.get(24..40)?)?, bytes.get(40..)?),
        _ => return None,
    };
    let (from, to) = ports(protocol, payload);
    Some(Packet { source: SocketAddr::new(source, from), destination: SocketAddr::new(destination, to), protocol })
}

fn v4(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from)
}

fn v6(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

fn ports(protocol: u8, payload: &[u8]) -> (u16, u16) {
    let mut head = [0; 4];
    let whole = Cursor::new(payload).read_exact(&mut head).is_ok();
    if whole && [TCP, UDP, SCTP].contains(&protocol) {
        let [a, b, c, d] = head;
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    } else {
        (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Packet, UDP, parse};

    #[test]
    fn the_addresses_of_an_ipv4_packet_are_read() {
        let mut bytes = [0; 28];
        bytes[0] = 0x45;
        bytes[9] = UDP;
        bytes[12..16].copy_from_slice(&[192, 0, 2, 1]);
        bytes[16..20].copy_from_slice(&[192, 0, 2, 2]);
        bytes[20..24].copy_from_slice(&[0x1f, 0x90, 0, 53]);
        let packet = Packet {
            source: "192.0.2.1:8080".parse().expect("an address"),
            destination: "192.0.2.2:53".parse().expect("an address"),
            protocol: UDP,
        };
        assert_eq!(parse(&bytes), Some(packet));
    }

    #[test]
    fn what_is_not_ip_has_no_addresses() {
        assert_eq!(parse(&[0, 1, 8, 0]), None);
    }
}
