//! One entry of a list: ports, users, or networks, as iptables takes them. Entries that iptables reads in a surprising
//! way are refused: numbers with a leading zero (octal there), addresses of fewer than four parts, host names.

use std::net::{IpAddr, Ipv4Addr};

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_netfilter::Proto;
use cni_netfilter::iptables::{Match, PortRange, UidRange};

use crate::names::Names;

/// The family that is redirected. IPv6 bypasses the proxy, as in the reference.
pub const FAMILY: Family = Family::V4;
/// The protocol that the proxy understands.
pub const PROTO: Proto = Proto::Tcp;

/// Errors of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("neither a port from 0 to 65535, nor a range such as 8000:8005, nor a tcp service of /etc/services")]
    Ports,
    #[error("neither a user ID, nor a range such as 1000-1005, nor a user of /etc/passwd")]
    Users,
    #[error("not an address, or a network such as 10.0.0.0/8 or 10.0.0.0/255.0.0.0")]
    Network,
}

/// Some ports of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    One(u16),
    Range(PortRange),
    All,
}

impl Ports {
    /// Connections to one of them.
    pub const fn matched(self) -> Match {
        match self {
            Self::One(port) => Match::Port(PROTO, port),
            Self::Range(range) => Match::PortRange(PROTO, range),
            Self::All => Match::Protocol(PROTO),
        }
    }
}

/// Parses a port, or a range; either end of a range may be omitted.
pub fn ports(text: &str, names: &mut Names<'_>) -> Result<Result<Ports, EntryError>, Error> {
    let Some((first, last)) = text.split_once(':') else {
        return Ok(port(text, names)?.map(Ports::One).ok_or(EntryError::Ports));
    };
    let first = if first.is_empty() { Some(0) } else { port(first, names)? };
    let last = if last.is_empty() { Some(u16::MAX) } else { port(last, names)? };
    let range = first.zip(last).filter(|(first, last)| first <= last && text != ":");
    Ok(range.map(|(first, last)| between(first, last)).ok_or(EntryError::Ports))
}

fn between(first: u16, last: u16) -> Ports {
    match PortRange::new(first, last) {
        Some(range) => Ports::Range(range),
        None if first == last => Ports::One(first),
        None => Ports::All,
    }
}

fn port(text: &str, names: &mut Names<'_>) -> Result<Option<u16>, Error> {
    if starts_with_digit(text) { Ok(number(text)) } else { names.service(text, Proto::Tcp) }
}

/// Reads a number, a range, or a name.
pub fn users(text: &str, names: &mut Names<'_>) -> Result<Result<UidRange, EntryError>, Error> {
    let range = if starts_with_digit(text) {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        number(first).zip(number(last))
    } else {
        names.user(text)?.map(|user| (user, user))
    };
    Ok(range.and_then(|(first, last)| UidRange::new(first, last)).ok_or(EntryError::Users))
}

/// Reads an address, a network, or several of these with commas between.
pub fn networks(text: &str) -> Result<Vec<Cidr>, EntryError> {
    text.split(',').map(|one| network(one.trim()).ok_or(EntryError::Network)).collect()
}

fn network(text: &str) -> Option<Cidr> {
    let Some((address, size)) = text.split_once('/') else { return text.parse().ok().map(Cidr::host) };
    let address: IpAddr = address.parse().ok()?;
    let prefix = match number(size) {
        Some(prefix) => prefix,
        None if address.is_ipv4() => prefix_of(size.parse().ok()?)?,
        None => return None,
    };
    Cidr::new(address, prefix).map(Cidr::network)
}

/// The prefix length of a mask; `None` if a one follows a zero.
fn prefix_of(mask: Ipv4Addr) -> Option<u8> {
    let ones = mask.to_bits().leading_ones();
    let is_whole = mask.to_bits().count_ones() == ones;
    u8::try_from(ones).ok().filter(|_| is_whole)
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Parses a number of decimal digits without a leading zero.
fn number<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number: &T| number.to_string() == text)
}
