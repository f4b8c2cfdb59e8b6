//! IPv4 packets on one interface, independent of its addresses: a DHCP client is reached before it has an address.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The longest packet that is taken; a server keeps to what the client says it takes.
pub const LONGEST: usize = 2048;

/// `ETH_P_IP` of `linux/if_ether.h`, as the kernel wants it.
const IPV4: u16 = (libc::ETH_P_IP as u16).to_be();
/// Everybody on an Ethernet.
const EVERYBODY: [u8; 6] = [0xff; 6];

/// Packets to the port of DHCP clients: unfragmented UDP datagrams to port 68, which the kernel filters (BPF of
/// `linux/filter.h`; the packet begins with the IP header).
const FILTER: [(u16, u8, u8, u32); 8] = [
    (0x30, 0, 0, 9),
    (0x15, 0, 5, 17),
    (0x28, 0, 0, 6),
    (0x45, 3, 0, 0x1fff),
    (0xb1, 0, 0, 0),
    (0x48, 0, 0, 2),
    (0x15, 1, 0, 68),
    (0x06, 0, 0, 0),
];
/// The end of the filter: all of the packet.
const TAKE: (u16, u8, u8, u32) = (0x06, 0, 0, LONGEST as u32);

/// A socket for DHCP on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    index: i32,
}

impl PacketSocket {
    /// Listens on an interface of the calling thread's namespace.
    pub fn open(index: u32) -> io::Result<Self> {
        let index = i32::try_from(index).map_err(io::Error::other)?;
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket(2) takes three integers and no memory. Without a protocol nothing is received yet.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        let new = Self { socket: unsafe { OwnedFd::from_raw_fd(socket) }, index };
        new.filter()?;
        new.bind()?;
        Ok(new)
    }

    fn filter(&self) -> io::Result<()> {
        let lines = FILTER.iter().chain([&TAKE]);
        let mut lines: Vec<libc::sock_filter> =
            lines.map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
        let length = u16::try_from(lines.len()).map_err(io::Error::other)?;
        let program = libc::sock_fprog { len: length, filter: lines.as_mut_ptr() };
        // SAFETY: the descriptor is open; the program and its lines outlive the call, and the length is that of the program.
        let done = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of_value(&program),
            )
        };
        checked(done).map(drop)
    }

    fn bind(&self) -> io::Result<()> {
        let address = self.address([0; 6]);
        // SAFETY: the descriptor is open; the address outlives the call, and the length is its own.
        let done = unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), size_of_value(&address)) };
        checked(done).map(drop)
    }

    /// Sends a packet to a MAC address, or to everybody.
    ///
    /// # Errors
    /// When the kernel refuses, such as `ENETDOWN` while the interface is down.
    pub fn send(&self, packet: &[u8], to: Option<[u8; 6]>) -> io::Result<()> {
        let address = self.address(to.unwrap_or(EVERYBODY));
        // SAFETY: the descriptor is open; packet and address outlive the call, and the lengths are their own.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_NOSIGNAL,
                (&raw const address).cast(),
                size_of_value(&address),
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Reads a packet, if there is one, with the MAC address of its sender.
    pub fn receive(&self) -> io::Result<Option<(Vec<u8>, [u8; 6])>> {
        let mut packet = vec![0; LONGEST];
        // SAFETY: all zero is a valid value of this structure of numbers.
        let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut length = size_of_value(&from);
        // SAFETY: the descriptor is open; packet, address and length outlive the call, and the lengths are their own.
        let received = unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                packet.as_mut_ptr().cast(),
                packet.len(),
                0,
                (&raw mut from).cast(),
                &raw mut length,
            )
        };
        let Ok(count) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        };
        packet.truncate(count);
        let [a, b, c, d, e, f, _, _] = from.sll_addr;
        Ok(Some((packet, [a, b, c, d, e, f])))
    }

    fn address(&self, hardware: [u8; 6]) -> libc::sockaddr_ll {
        let [a, b, c, d, e, f] = hardware;
        libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: IPV4,
            sll_ifindex: self.index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [a, b, c, d, e, f, 0, 0],
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn size_of_value<T>(_: &T) -> libc::socklen_t {
    libc::socklen_t::try_from(mem::size_of::<T>()).unwrap_or(libc::socklen_t::MAX)
}

fn checked(done: i32) -> io::Result<i32> {
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_kernel::netlink::Socket;
    use nix::sched::{CloneFlags, unshare};

    /// What only root can set up.
    mod as_root {
        use super::*;

        /// A packet of UDP to a port.
        fn packet(port: u8) -> Vec<u8> {
            let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
            packet.extend([0, 67, 0, port, 0, 12, 0, 0, 1, 2, 3, 4]);
            packet
        }

        #[test]
        fn only_what_is_for_clients_of_dhcp_is_received() {
            unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
            Socket::open().and_then(|mut socket| socket.set_link_up(1)).expect("lo up");
            let socket = PacketSocket::open(1).expect("a socket");
            for port in [67, 68] {
                socket.send(&packet(port), None).expect("sent");
            }
            let mut fragment = packet(68);
            fragment[7] = 1;
            socket.send(&fragment, Some([1; 6])).expect("sent");
            // On lo, each is seen on its way out and on its way in.
            let mut received = Vec::new();
            while let Some((packet, _)) = socket.receive().expect("asked") {
                received.push(packet);
            }
            assert!(!received.is_empty() && received.iter().all(|one| *one == packet(68)), "{received:?}");
        }
    }
}
