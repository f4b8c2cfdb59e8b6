//! The flow that a trace follows: the words of its command line, which packets are marked, and which paths belong to the packet and to
//! the answer.

use std::net::{IpAddr, SocketAddr};

use cni_core::family::Family;
use cni_kernel::nftables::trace::Mark;
use cni_plugin::namespace::Life;

use super::case::{Aim, PortHolder};
use super::packet::{TCP, UDP, end, protocol_name};
use super::packet_path::PacketPath;
use crate::cache::PublishedPort;
use crate::contested;
use crate::inventory::{Attached, Inventory};

/// What to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceTarget {
    /// Packets to a port of the host.
    Port { port: u16, protocol: u8 },
    /// Packets to and from a container.
    Container(String),
    /// Packets from a container to an address.
    From { container: String, to: IpAddr, port: Option<u16>, protocol: Option<u8> },
}

impl TraceTarget {
    /// Reads `PORT[/udp]`, `CONTAINER` or `CONTAINER to ADDRESS[:PORT][/udp]`.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [word] => Ok(port(word)?.unwrap_or_else(|| Self::Container(word.to_owned()))),
            [container, "to", address] => from(container, address),
            _ => Err("write PORT, PORT/udp, CONTAINER, or CONTAINER to ADDRESS:PORT".to_owned()),
        }
    }
}

/// A word that begins as a port does is one if it is a number; `None` for any other word.
fn port(word: &str) -> Result<Option<TraceTarget>, String> {
    let (number, protocol) = split(word)?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return if protocol.is_some() { Err(format!("{number:?} is not the number of a port")) } else { Ok(None) };
    }
    // The names of containers may be numbers, but a long one is not a port.
    match number.parse() {
        Ok(port) if port > 0 => Ok(Some(TraceTarget::Port { port, protocol: protocol.unwrap_or(TCP) })),
        Ok(_) | Err(_) if number.len() <= 5 => Err(format!("{number} is not a port: write 1 to 65535")),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn from(container: &str, address: &str) -> Result<TraceTarget, String> {
    let (text, protocol) = split(address)?;
    let refused =
        || format!("{text:?} is not an address: write 192.0.2.1, 192.0.2.1:80, 2001:db8::1 or [2001:db8::1]:80");
    let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let (to, port) = match plain.parse::<IpAddr>() {
        Ok(address) => (address, None),
        Err(_) => text.parse::<SocketAddr>().map(|end| (end.ip(), Some(end.port()))).map_err(|_| refused())?,
    };
    if port == Some(0) {
        return Err("0 is not a port: write 1 to 65535".to_owned());
    }
    if port.is_none() && protocol.is_some() {
        return Err(format!("{address} names a protocol and no port"));
    }
    let protocol = port.map(|_| protocol.unwrap_or(TCP));
    Ok(TraceTarget::From { container: container.to_owned(), to, port, protocol })
}

/// A word without the protocol at its end, and the protocol.
fn split(word: &str) -> Result<(&str, Option<u8>), String> {
    match word.rsplit_once('/') {
        None => Ok((word, None)),
        Some((rest, name)) if name.eq_ignore_ascii_case("tcp") => Ok((rest, Some(TCP))),
        Some((rest, name)) if name.eq_ignore_ascii_case("udp") => Ok((rest, Some(UDP))),
        Some((_, name)) => Err(format!("{name:?} is not a protocol that trace knows: write tcp or udp")),
    }
}

/// The flow that is traced.
#[derive(Debug)]
pub struct TracedFlow<'a> {
    pub aim: Aim,
    /// The container, if one is concerned.
    pub subject: Option<&'a Attached>,
    /// Its address, of the family of the packets.
    pub address: Option<IpAddr>,
    /// The container that has the port, if the subject has to wait for it.
    pub holder: Option<PortHolder>,
    pub kind: FlowKind,
}

/// The direction of the flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// To a port of the host.
    Published { port: u16, protocol: u8, host_ip: Option<IpAddr>, container_port: Option<u16> },
    /// To a container that publishes nothing.
    ToContainer,
    /// From a container to an address.
    From { to: IpAddr, port: Option<u16>, protocol: Option<u8> },
}

impl<'a> TracedFlow<'a> {
    /// Finds the container that is meant.
    ///
    /// # Errors
    /// A sentence that says why there is no such container.
    pub fn find(target: &TraceTarget, found: &'a Inventory) -> Result<Self, String> {
        match target {
            TraceTarget::Port { port, protocol } => Ok(Self::to_port(*port, *protocol, found)),
            TraceTarget::Container(name) => Ok(Self::to_container(attached(name, found)?, found)),
            TraceTarget::From { container, to, port, protocol } => {
                let subject = attached(container, found)?;
                let address = address_of(subject, Some(Family::of(*to)));
                let Some(address) = address else {
                    return Err(format!(
                        "container {} has no IP{} address",
                        subject.cached.at.container,
                        Family::of(*to)
                    ));
                };
                let aim = Aim::Out(end(*to, *port));
                let kind = FlowKind::From { to: *to, port: *port, protocol: *protocol };
                Ok(Self { aim, subject: Some(subject), address: Some(address), holder: None, kind })
            }
        }
    }

    /// The oldest container that publishes a port has it.
    fn to_port(port: u16, protocol: u8, found: &'a Inventory) -> Self {
        let publishes = |one: &&'a Attached| one.cached.ports.iter().any(|published| is_it(published, port, protocol));
        let subject = living(found).find(publishes);
        let published = subject.and_then(|one| one.cached.ports.iter().find(|one| is_it(one, port, protocol)));
        Self::published(subject, published, port, protocol)
    }

    fn to_container(subject: &'a Attached, found: &Inventory) -> Self {
        let Some(published) = subject.cached.ports.iter().find(|port| [TCP, UDP].contains(&protocol_of(port))) else {
            let aim = Aim::In(format!("container {}", subject.cached.at.container));
            let address = address_of(subject, None);
            return Self { aim, subject: Some(subject), address, holder: None, kind: FlowKind::ToContainer };
        };
        let holder = contested::waited_for(found, &subject.cached.at, published);
        let holder = holder
            .map(|port| PortHolder { container: port.holder.container.to_string(), is_dead: port.holder_is_dead });
        Self { holder, ..Self::published(Some(subject), Some(published), published.host_port, protocol_of(published)) }
    }

    fn published(subject: Option<&'a Attached>, published: Option<&PublishedPort>, port: u16, protocol: u8) -> Self {
        let host_ip = published.and_then(|one| one.host_ip.parse().ok());
        let family = host_ip.map(Family::of);
        let kind = FlowKind::Published {
            port,
            protocol,
            host_ip: host_ip.filter(|ip: &IpAddr| !ip.is_unspecified()),
            container_port: published.map(|one| one.container_port),
        };
        let address = subject.and_then(|one| address_of(one, family));
        Self { aim: Aim::In(format!("port {port}/{}", protocol_name(protocol))), subject, address, holder: None, kind }
    }

    /// The family of the packets.
    pub fn family(&self) -> Family {
        match &self.kind {
            FlowKind::From { to, .. } => Family::of(*to),
            FlowKind::Published { host_ip: Some(ip), .. } => Family::of(*ip),
            FlowKind::Published { host_ip: None, .. } | FlowKind::ToContainer => {
                self.address.map_or(Family::V4, Family::of)
            }
        }
    }

    /// The marks of packets that others send.
    pub fn marks(&self) -> Vec<Mark> {
        let nothing = Mark::default;
        match &self.kind {
            FlowKind::Published { port, protocol, container_port, .. } => {
                let protocol = Some(*protocol);
                let forth = Mark { protocol, destination_port: Some(*port), ..nothing() };
                let source_port = Some(self.address.and(*container_port).unwrap_or(*port));
                vec![forth, Mark { source: self.address, protocol, source_port, ..nothing() }]
            }
            FlowKind::ToContainer => {
                let both =
                    [Mark { destination: self.address, ..nothing() }, Mark { source: self.address, ..nothing() }];
                both.into_iter().filter(|_| self.address.is_some()).collect()
            }
            FlowKind::From { to, port, protocol } => vec![
                Mark {
                    source: self.address,
                    destination: Some(*to),
                    protocol: *protocol,
                    destination_port: *port,
                    ..nothing()
                },
                Mark { source: Some(*to), protocol: *protocol, source_port: *port, ..nothing() },
            ],
        }
    }

    /// The marks of the probe's own packets, which comes by a link.
    pub fn marks_of_probe(link: &str, own: IpAddr) -> Vec<Mark> {
        let input = Some(link.to_owned());
        vec![Mark { input, source: Some(own), ..Mark::default() }, Mark { destination: Some(own), ..Mark::default() }]
    }

    /// Whether a path is that of a packet that is followed.
    pub fn is_followed(&self, way: &PacketPath) -> bool {
        let Some(sight) = way.first() else { return false };
        let packet = &sight.packet;
        let port = |number: Option<u16>| number.is_none_or(|number| packet.ports.is_some_and(|[_, to]| to == number));
        match &self.kind {
            FlowKind::Published { port: number, protocol, .. } => packet.protocol == *protocol && port(Some(*number)),
            FlowKind::ToContainer => Some(packet.destination) == self.address,
            FlowKind::From { to, port: number, .. } => {
                packet.destination == *to && Some(packet.source) == self.address && port(*number)
            }
        }
    }

    /// Whether a path is that of an answer.
    pub fn is_answer(&self, way: &PacketPath) -> bool {
        let Some(sight) = way.first() else { return false };
        let packet = &sight.packet;
        let port =
            |number: Option<u16>| number.is_none_or(|number| packet.ports.is_some_and(|[source, _]| source == number));
        match &self.kind {
            FlowKind::Published { port: own, container_port, .. } => match self.address {
                Some(address) if packet.source == address => port(*container_port),
                Some(_) | None => packet.ports.is_some_and(|[source, to]| source == *own && to != *own),
            },
            FlowKind::ToContainer => Some(packet.source) == self.address,
            FlowKind::From { to, port: number, .. } => packet.source == *to && port(*number),
        }
    }
}

fn living(found: &Inventory) -> impl Iterator<Item = &Attached> {
    found.attached.iter().filter(|one| one.life != Life::Dead)
}

/// The container of a name, or of the beginning of one, as `list` shows it.
fn attached<'a>(name: &str, found: &'a Inventory) -> Result<&'a Attached, String> {
    let name = name.trim_end_matches('…');
    let called = |one: &&Attached| one.cached.at.container.as_str() == name;
    if let Some(one) = living(found).find(called) {
        return Ok(one);
    }
    let begins = |one: &&Attached| one.cached.at.container.as_str().starts_with(name);
    let mut meant: Vec<&Attached> = living(found).filter(begins).collect();
    meant.dedup_by_key(|one| one.cached.at.container.clone());
    match meant[..] {
        [one] => Ok(one),
        [] => Err(format!("there is no container {name}: cni-plugins list shows them")),
        _ => Err(format!("the names of {} containers begin with {name}: write more of it", meant.len())),
    }
}

fn address_of(one: &Attached, family: Option<Family>) -> Option<IpAddr> {
    let mut addresses: Vec<IpAddr> = one.cached.addresses.clone();
    addresses.sort_by_key(|address| Family::of(*address));
    addresses.into_iter().find(|address| family.is_none_or(|family| family == Family::of(*address)))
}

fn protocol_of(port: &PublishedPort) -> u8 {
    match port.protocol.to_ascii_lowercase().as_str() {
        "" | "tcp" => TCP,
        "udp" => UDP,
        _ => 132,
    }
}

fn is_it(published: &PublishedPort, port: u16, protocol: u8) -> bool {
    published.host_port == port && protocol_of(published) == protocol
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<TraceTarget, String> {
        TraceTarget::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn ports_containers_and_addresses_are_told_apart() {
        let from = |to: &str, port, protocol| {
            let to = to.parse().expect("an address");
            TraceTarget::From { container: "web".to_owned(), to, port, protocol }
        };
        for (line, want) in [
            ("8080", TraceTarget::Port { port: 8080, protocol: TCP }),
            ("53/UDP", TraceTarget::Port { port: 53, protocol: UDP }),
            ("web", TraceTarget::Container("web".to_owned())),
            ("1234567890", TraceTarget::Container("1234567890".to_owned())),
            ("web to 192.0.2.1", from("192.0.2.1", None, None)),
            ("web to 192.0.2.1:53/udp", from("192.0.2.1", Some(53), Some(UDP))),
            ("web to 2001:db8::1", from("2001:db8::1", None, None)),
            ("web to [2001:db8::1]:80", from("2001:db8::1", Some(80), Some(TCP))),
        ] {
            assert_eq!(read(line), Ok(want), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused_with_what_to_write() {
        for (line, says) in [
            ("0", "0 is not a port"),
            ("70000", "70000 is not a port"),
            ("53/sctp", "\"sctp\" is not a protocol that trace knows"),
            ("web/udp", "\"web\" is not the number of a port"),
            ("web to", "write PORT, PORT/udp"),
            ("web to nowhere", "\"nowhere\" is not an address"),
            ("web to 192.0.2.1:0", "0 is not a port"),
            ("web to 192.0.2.1/udp", "192.0.2.1/udp names a protocol and no port"),
            ("web from 192.0.2.1", "write PORT, PORT/udp"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.starts_with(says), "{line}: {error}");
        }
    }
}
