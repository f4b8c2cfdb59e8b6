//! DHCP messages: the fields of BOOTP and the options after them (RFC 2131 section 2).

use std::net::Ipv4Addr;

use super::hardware::Hardware;
use super::options::{DhcpOptions, code};

/// The type of a message, option 53.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    /// A client looks for servers.
    Discover,
    /// A server offers an address.
    Offer,
    /// A client wants an address, or wants to keep it.
    Request,
    /// A client has found the address in use.
    Decline,
    /// A server leases the address.
    Ack,
    /// A server refuses.
    Nak,
    /// A client gives the address back.
    Release,
    /// A client has an address, and asks for the rest.
    Inform,
}

impl MessageType {
    const ALL: [Self; 8] =
        [Self::Discover, Self::Offer, Self::Request, Self::Decline, Self::Ack, Self::Nak, Self::Release, Self::Inform];

    const fn number(self) -> u8 {
        match self {
            Self::Discover => 1,
            Self::Offer => 2,
            Self::Request => 3,
            Self::Decline => 4,
            Self::Ack => 5,
            Self::Nak => 6,
            Self::Release => 7,
            Self::Inform => 8,
        }
    }

    fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
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
        options.set(code::MESSAGE_TYPE, &[kind.number()]);
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

#[cfg(test)]
mod tests;
