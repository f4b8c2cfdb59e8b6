//! The probe: a packet of our own, from a network namespace that ends with this process, or from the container.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_kernel::echo::echo;
use cni_kernel::netlink::Socket;
use cni_kernel::netns::Netns;
use cni_model::link::OperState;
use cni_model::plan::{Dad, IfPresent, LinkKind, NewLink, NewRoute, Ns, VethPeer};

use super::case::ProbeReply;
use super::packet::UDP;

/// How many networks are tried for the probe.
const TRIES: u32 = 64;

/// The time limit for the kernel to activate the probe's link, and the interval of looking. The kernel does it in the
/// background (net/core/link_watch.c), and seconds later while others change many links.
const ACTIVATION_LIMIT: Duration = Duration::from_secs(10);
const ACTIVATION_PAUSE: Duration = Duration::from_millis(5);

/// A network namespace behind a link of the host.
#[derive(Debug)]
pub struct Neighbour {
    pub netns: Netns,
    /// The host's end of the link.
    pub link: String,
    /// The host's address there, and the probe's.
    pub host: IpAddr,
    pub own: IpAddr,
    index: u32,
}

impl Neighbour {
    /// Makes it. The namespace, and the link with it, end when this process does.
    ///
    /// # Errors
    /// When the kernel refuses, or no network is free.
    pub fn new(family: Family) -> Result<Self, Error> {
        let netns = Netns::inside_new(Netns::own).and_then(|netns| netns).map_err(|error| no_namespace(&error))?;
        let mut host = Socket::open()?;
        let [near, far] = free_network(&mut host, family)?;
        let link = format!("cnitrace{}", std::process::id());
        let name = |text: &str| IfName::parse(text).map_err(|_| name_taken(text));
        let new = NewLink {
            name: name(&link)?,
            mac: Some(mac(1)),
            mtu: None,
            if_present: IfPresent::Refuse,
            kind: LinkKind::Veth { peer: VethPeer { ns: Ns::Container, name: name("probe0")?, mac: mac(2) } },
        };
        host.create_link(&new, Some(netns.as_fd()))?;
        let index = host.link(&link)?.map(|link| link.index).ok_or_else(|| name_taken(&link))?;
        let (host_end, own) = (near.address(), far.address());
        let neighbour = Self { netns, link, host: host_end, own, index };
        host.set_link_up(index)?;
        host.add_address(index, near, Dad::Skip)?;
        neighbour.set_up(far)?;
        await_activation(&mut host, &neighbour.link)?;
        Ok(neighbour)
    }

    fn set_up(&self, own: Cidr) -> Result<(), Error> {
        let mut inside = self.netns.inside(Socket::open).map_err(|error| no_namespace(&error))??;
        let probe = inside.link("probe0")?.ok_or_else(|| name_taken("probe0"))?;
        inside.set_link_up(probe.index)?;
        inside.add_address(probe.index, own, Dad::Skip)?;
        let everywhere = Cidr::new(own.family().unspecified(), 0).ok_or_else(no_network)?;
        inside.add_route(probe.index, &NewRoute { gw: Some(self.host), ..NewRoute::to(everywhere) })?;
        await_activation(&mut inside, "probe0")
    }
}

/// Waits until an end of the link sends packets: earlier, the probe's ARP request or the host's answer is dropped, and the
/// packet filter sees no probe.
fn await_activation(socket: &mut Socket, link: &str) -> Result<(), Error> {
    let end = Instant::now() + ACTIVATION_LIMIT;
    loop {
        let state = socket.link(link)?.map_or(OperState::NotPresent, |link| link.oper_state);
        if state == OperState::Up {
            return Ok(());
        }
        if Instant::now() >= end {
            let limit = ACTIVATION_LIMIT.as_secs();
            return Err(fail!(
                Kernel,
                "the probe's link {link} does not pass packets after {limit} seconds: its state is {state}"
            ));
        }
        thread::sleep(ACTIVATION_PAUSE);
    }
}

fn no_namespace(error: &io::Error) -> Error {
    fail!(Kernel, "failed to make a network namespace: {error}")
}

fn name_taken(link: &str) -> Error {
    fail!(Conflict, "a link is called {link} already")
}

fn no_network() -> Error {
    fail!(Kernel, "no network is free for the probe: every one of {TRIES} is in use")
}

impl Drop for Neighbour {
    /// The kernel would do it a little later.
    fn drop(&mut self) {
        let deleted = Socket::open().and_then(|mut host| host.delete_link(self.index));
        if let Err(error) = deleted {
            log::warn!("{error}");
        }
    }
}

fn mac(end: u8) -> Mac {
    let [a, b, c, d] = std::process::id().to_be_bytes();
    Mac::local([end, 0x7c, a, b, c, d])
}

/// The addresses of host and probe, in a network that the host does not know.
fn free_network(host: &mut Socket, family: Family) -> Result<[Cidr; 2], Error> {
    let mut used: Vec<Cidr> =
        host.addresses(None, Some(family))?.into_iter().map(|address| address.cidr.network()).collect();
    used.extend(host.routes(family, None)?.into_iter().map(|route| route.dst));
    choose(family, std::process::id(), &used).ok_or_else(no_network)
}

/// A network of four addresses, of those for measurements (RFC 2544), or a local one of IPv6.
fn choose(family: Family, seed: u32, used: &[Cidr]) -> Option<[Cidr; 2]> {
    (0..TRIES).map(|n| seed.wrapping_add(n)).find_map(|number| {
        let [near, far] = match family {
            Family::V4 => {
                let first = u32::from(Ipv4Addr::new(198, 18, 0, 0)) | (number & 0x7fff) << 2;
                [1, 2].map(|n| IpAddr::V4(Ipv4Addr::from(first | n)))
            }
            Family::V6 => {
                let first = u128::from(Ipv6Addr::new(0xfd63, 0x6e69, 0x7472, 0, 0, 0, 0, 0)) | u128::from(number) << 2;
                [1, 2].map(|n| IpAddr::V6(Ipv6Addr::from(first | n)))
            }
        };
        let [near, far] = [near, far].map(|address| Cidr::new(address, family.bits() - 2));
        let ends = [near?, far?];
        let is_used = used.iter().any(|used| used.prefix() > 0 && used.overlaps(ends[0].network()));
        (!is_used).then_some(ends)
    })
}

/// Where the probe goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePacket {
    pub to: IpAddr,
    /// Without a port it asks for an echo.
    pub port: Option<u16>,
    pub protocol: u8,
}

/// Sends it from a namespace, and waits for the answer.
pub fn send(from: &Netns, shot: ProbePacket, patience: Duration) -> ProbeReply {
    match from.inside(|| sent(shot, patience)) {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => judged(&error),
        Err(error) => ProbeReply::Unreachable(error.to_string()),
    }
}

fn sent(shot: ProbePacket, patience: Duration) -> io::Result<ProbeReply> {
    let ProbePacket { to, port, protocol } = shot;
    let Some(port) = port else {
        return Ok(if echo(to, patience)? { ProbeReply::Answered } else { ProbeReply::Silent });
    };
    let end = SocketAddr::new(to, port);
    if protocol != UDP {
        return TcpStream::connect_timeout(&end, patience).map(|_| ProbeReply::Answered);
    }
    let socket = UdpSocket::bind(SocketAddr::new(Family::of(to).unspecified(), 0))?;
    socket.set_read_timeout(Some(patience))?;
    socket.connect(end)?;
    socket.send(b"cni-plugins trace\n")?;
    socket.recv(&mut [0; 1]).map(|_| ProbeReply::Answered)
}

fn judged(error: &io::Error) -> ProbeReply {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        ProbeReply::Refused
    } else if [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock].contains(&error.kind()) {
        ProbeReply::Silent
    } else {
        ProbeReply::Unreachable(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect("a network")
    }

    #[test]
    fn the_probe_takes_a_network_that_nobody_uses() {
        let texts = |used: &[Cidr]| choose(Family::V4, 5, used).map(|ends| ends.map(|end| end.to_string()));
        let want = |ends: [&str; 2]| Some(ends.map(str::to_owned));
        assert_eq!(texts(&[cidr("0.0.0.0/0")]), want(["198.18.0.21/30", "198.18.0.22/30"]));
        assert_eq!(texts(&[cidr("198.18.0.20/31")]), want(["198.18.0.25/30", "198.18.0.26/30"]));
        assert_eq!(texts(&[cidr("198.18.0.0/15")]), None);
        let v6 = choose(Family::V6, 1, &[]).map(|ends| ends.map(|end| end.to_string()));
        assert_eq!(v6, want(["fd63:6e69:7472::5/126", "fd63:6e69:7472::6/126"]));
    }

    #[test]
    fn an_error_is_a_reply() {
        assert_eq!(judged(&io::Error::from_raw_os_error(libc::ECONNREFUSED)), ProbeReply::Refused);
        assert_eq!(judged(&io::Error::from_raw_os_error(libc::ETIMEDOUT)), ProbeReply::Silent);
        assert!(matches!(judged(&io::Error::from_raw_os_error(libc::EHOSTUNREACH)), ProbeReply::Unreachable(_)));
    }
}
