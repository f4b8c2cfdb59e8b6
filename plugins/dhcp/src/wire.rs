//! DHCP messages (RFC 2131 section 2: the fields of BOOTP, then options of RFC 2132) in UDP in IPv4 (RFC 768, RFC 791), as a packet socket
//! sends and receives them: without the Ethernet header.
//!
//! The codec is our own, since no crate is both small and correct: dhcproto brings 49 crates, and stops reading at an
//! option of unexpected length; edge-dhcp panics on a list of routers of unexpected length.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A link-layer address of Ethernet.
pub type Hardware = [u8; 6];

/// The type of a message, option 53.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    /// A client looks for servers.
    Discover = 1,
    /// A server offers an address.
    Offer = 2,
    /// A client wants an address, or wants to keep it.
    Request = 3,
    /// A client has found the address in use.
    Decline = 4,
    /// A server leases the address.
    Ack = 5,
    /// A server refuses.
    Nak = 6,
    /// A client gives the address back.
    Release = 7,
    /// A client has an address, and asks for the rest.
    Inform = 8,
}

impl MessageType {
    const ALL: [Self; 8] =
        [Self::Discover, Self::Offer, Self::Request, Self::Decline, Self::Ack, Self::Nak, Self::Release, Self::Inform];

    fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

const BOOT_REQUEST: u8 = 1;
const BOOT_REPLY: u8 = 2;
/// Ethernet, in the assigned numbers of ARP.
const ETHERNET: u8 = 1;
const MAGIC: [u8; 4] = [99, 130, 83, 99];
/// The bit of `flags` by which a client asks for answers to everybody.
const BROADCAST: [u8; 2] = [0x80, 0];
/// Relays drop messages that are shorter (RFC 1542 section 2.1).
const SHORTEST: usize = 300;
/// The offsets of the fields: chaddr, sname, file, the magic cookie, the options.
const CHADDR: usize = 28;
const SNAME: usize = 44;
const FILE: usize = 108;
const COOKIE: usize = 236;
const OPTIONS: usize = 240;

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its type.
    pub kind: MessageType,
    /// By which its answer is known.
    pub xid: u32,
    /// Whether the answer must be a broadcast: a client that shares a MAC address receives no other.
    pub broadcast: bool,
    /// The address that the client has.
    pub own: Ipv4Addr,
    /// The MAC address of its interface.
    pub mac: Hardware,
    /// All options but the type.
    pub options: DhcpOptions,
}

impl Outgoing {
    /// The bytes of the message.
    pub fn bytes(&self) -> Vec<u8> {
        let Self { kind, xid, broadcast, own, mac, options } = self;
        let mut bytes = vec![BOOT_REQUEST, ETHERNET, 6, 0];
        bytes.extend(xid.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(if *broadcast { BROADCAST } else { [0, 0] });
        bytes.extend(own.octets());
        bytes.resize(CHADDR, 0);
        bytes.extend(mac);
        bytes.resize(COOKIE, 0);
        bytes.extend(MAGIC);
        let mut options = options.clone();
        options.set(code::MESSAGE_TYPE, &[*kind as u8]);
        bytes.extend(options.bytes());
        bytes.resize(bytes.len().max(SHORTEST), 0);
        bytes
    }
}

/// A message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Its type.
    pub kind: MessageType,
    /// The transaction id of the message that it answers.
    pub xid: u32,
    /// The address that the client is to have.
    pub address: Ipv4Addr,
    /// The MAC address of the client.
    pub mac: Hardware,
    /// All options.
    pub options: DhcpOptions,
}

impl Incoming {
    /// Parses a message of a server; `None` if it is another message, or truncated.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut options = DhcpOptions::default();
        let is_whole = bytes.get(COOKIE..OPTIONS)? == MAGIC && options.read(bytes.get(OPTIONS..)?);
        let [BOOT_REPLY, ETHERNET, 6, _] = *bytes.first_chunk()? else { return None };
        if !is_whole {
            return None;
        }
        read_overloaded(bytes, &mut options)?;
        Some(Self {
            kind: MessageType::of(*options.get(code::MESSAGE_TYPE)?.first()?)?,
            xid: u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?),
            address: Ipv4Addr::from(*bytes.get(16..)?.first_chunk::<4>()?),
            mac: *bytes.get(CHADDR..)?.first_chunk()?,
            options,
        })
    }

    /// The server that the message is of.
    pub fn server(&self) -> Option<Ipv4Addr> {
        self.options.array::<4>(code::SERVER_IDENTIFIER).map(Ipv4Addr::from)
    }
}

/// A server may go on with its options in fields that it does not need otherwise (RFC 2132 section 9.3).
fn read_overloaded(bytes: &[u8], options: &mut DhcpOptions) -> Option<()> {
    let overload = options.get(code::OVERLOAD).and_then(|value| value.first().copied()).unwrap_or_default();
    for (bit, field) in [(1, FILE..COOKIE), (2, SNAME..FILE)] {
        if overload & bit != 0 && !options.read(bytes.get(field)?) {
            return None;
        }
    }
    Some(())
}

/// The codes that are used here, by the names of RFC 2132 and RFC 3442.
pub mod code {
    pub const PAD: u8 = 0;
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTER: u8 = 3;
    pub const DOMAIN_NAME_SERVER: u8 = 6;
    pub const HOST_NAME: u8 = 12;
    pub const DOMAIN_NAME: u8 = 15;
    pub const INTERFACE_MTU: u8 = 26;
    pub const STATIC_ROUTE: u8 = 33;
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const MESSAGE_TYPE: u8 = 53;
    pub const SERVER_IDENTIFIER: u8 = 54;
    pub const PARAMETER_REQUEST_LIST: u8 = 55;
    pub const MAXIMUM_MESSAGE_SIZE: u8 = 57;
    pub const RENEWAL_TIME: u8 = 58;
    pub const REBINDING_TIME: u8 = 59;
    pub const VENDOR_CLASS: u8 = 60;
    pub const CLIENT_IDENTIFIER: u8 = 61;
    pub const USER_CLASS: u8 = 77;
    pub const DOMAIN_SEARCH: u8 = 119;
    pub const CLASSLESS_ROUTE: u8 = 121;
    pub const END: u8 = 255;
}

/// The longest value that one option holds.
const LONGEST: usize = 255;

/// Options by their codes. The parts of an option that occurs several times are joined (RFC 3396).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DhcpOptions(BTreeMap<u8, Vec<u8>>);

impl DhcpOptions {
    /// Sets an option, in place of an earlier one.
    pub fn set(&mut self, code: u8, value: &[u8]) {
        self.0.insert(code, value.to_vec());
    }

    /// The value of an option.
    pub fn get(&self, code: u8) -> Option<&[u8]> {
        self.0.get(&code).map(Vec::as_slice)
    }

    /// A value of so many bytes, or the first so many of a longer one.
    pub fn array<const N: usize>(&self, code: u8) -> Option<[u8; N]> {
        self.get(code)?.first_chunk().copied()
    }

    /// Adds the options in a field of a message; returns whether the field was complete.
    fn read(&mut self, mut field: &[u8]) -> bool {
        loop {
            match *field {
                [code::PAD, ref rest @ ..] => field = rest,
                [code::END, ..] => return true,
                [code, length, ref rest @ ..] => {
                    let Some((value, rest)) = rest.split_at_checked(length.into()) else { return false };
                    self.0.entry(code).or_default().extend(value);
                    field = rest;
                }
                [_] | [] => return false,
            }
        }
    }

    /// The bytes of all options, in the order of their codes, with their end.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, value) in &self.0 {
            let parts = if value.is_empty() { vec![&[][..]] } else { value.chunks(LONGEST).collect() };
            for part in parts {
                bytes.extend([*code, u8::try_from(part.len()).unwrap_or(u8::MAX)]);
                bytes.extend(part);
            }
        }
        bytes.push(code::END);
        bytes
    }
}

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
        // A checksum of zero means that the sender computed none (RFC 768).
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
mod tests;
