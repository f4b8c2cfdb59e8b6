//! Ranges of addresses, and range sets. A container gets one address from each set.
//!
//! A [`Range`] exists only if it is valid, a [`RangeSet`] only if its ranges share a family and no address.
//! [`RangeSet::candidates`] returns the addresses in the order of assignment: from the one after the last assigned
//! address, through all ranges, back to that one.

use std::fmt;
use std::iter::successors;
use std::net::IpAddr;

use cni_core::cidr::{Cidr, ip_offset};
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::result::IpConfig;

/// The subnet of a range, as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subnet {
    /// An IPv4 or IPv6 network.
    Plain(Cidr),
    /// IPv4 written as IPv6, in which the prefix length is ambiguous.
    Mapped,
}

/// The keys of a range that were given.
#[derive(Clone, Copy, Debug, Default)]
pub struct GivenRange {
    pub subnet: Option<Subnet>,
    /// `rangeStart`
    pub start: Option<IpAddr>,
    /// `rangeEnd`
    pub end: Option<IpAddr>,
    pub gateway: Option<IpAddr>,
}

/// Consecutive addresses of one subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    subnet: Cidr,
    start: IpAddr,
    end: IpAddr,
    gateway: IpAddr,
}

impl Range {
    /// Fills in what was not given: all addresses except those of network and broadcast, and the first one as
    /// gateway. A given gateway may be any address.
    ///
    /// # Errors
    /// In the order of the reference, with its messages.
    pub fn new(given: &GivenRange) -> Result<Self, Error> {
        let subnet = match given.subnet {
            None => return Err(fail!(InvalidConfig, "subnet is missing")),
            Some(Subnet::Mapped) => return Err(fail!(InvalidConfig, "subnet is an IPv4 network written as IPv6")),
            Some(Subnet::Plain(subnet)) => subnet,
        };
        let family = subnet.family();
        // Beside the addresses of network, gateway and broadcast there must be one to give.
        if subnet.prefix() > family.bits() - 2 {
            return Err(fail!(InvalidConfig, "Network {subnet} too small to allocate from"));
        }
        if !subnet.is_network() {
            let (length, address) = (subnet.prefix(), subnet.network().address());
            let text = format!("For a subnet mask of length {length} the network address is {address}");
            return Err(fail!(InvalidConfig, "Network has host bits set. {text}", details: "subnet {subnet}"));
        }
        let first = ip_offset(subnet.address(), 1).unwrap_or(subnet.address());
        let start = given.start.unwrap_or(first);
        let end = given.end.unwrap_or_else(|| last_usable(subnet));
        if !subnet.contains(start) || given.start.is_some() && start > end {
            return Err(fail!(InvalidConfig, "RangeStart {start} not in network {subnet}"));
        }
        if !subnet.contains(end) || start > end {
            return Err(fail!(InvalidConfig, "RangeEnd {end} not in network {subnet}"));
        }
        Ok(Self { subnet, start, end, gateway: given.gateway.unwrap_or(first) })
    }

    /// Whether an address is in the range, including both ends.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.start <= address && address <= self.end
    }

    /// The family of its addresses.
    pub fn family(&self) -> Family {
        self.subnet.family()
    }

    /// Whether an address may be handed out: the gateway is not.
    pub fn hands_out(&self, address: IpAddr) -> bool {
        self.contains(address) && address != self.gateway
    }

    /// How many of its addresses are never handed out.
    pub fn reserved(&self) -> u128 {
        u128::from(self.contains(self.gateway))
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// The addresses from `first` to `last` that may be handed out.
    fn between(&self, first: Option<IpAddr>, last: IpAddr) -> impl Iterator<Item = IpAddr> + Clone + use<> {
        let gateway = self.gateway;
        successors(first, |address| ip_offset(*address, 1))
            .take_while(move |address| *address <= last)
            .filter(move |address| *address != gateway)
    }

    fn all(&self) -> impl Iterator<Item = IpAddr> + Clone + use<> {
        self.between(Some(self.start), self.end)
    }

    /// The number of addresses that may be assigned.
    pub fn capacity(&self) -> u128 {
        let span = bits(self.end) - bits(self.start);
        if self.contains(self.gateway) { span } else { span.saturating_add(1) }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

/// The last address, or for IPv4 the one before the broadcast address.
fn last_usable(subnet: Cidr) -> IpAddr {
    match subnet.last() {
        IpAddr::V4(last) => IpAddr::V4(last.to_bits().saturating_sub(1).into()),
        last @ IpAddr::V6(_) => last,
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Ranges of one family, without an address in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSet(Vec<Range>);

impl RangeSet {
    /// Joins ranges into a set.
    pub fn new(given: &[GivenRange]) -> Result<Self, Error> {
        let mut ranges: Vec<Range> = Vec::with_capacity(given.len());
        for keys in given {
            let range = Range::new(keys)?;
            if let Some(first) = ranges.first().filter(|first| first.family() != range.family()) {
                let (first, second) = (first.subnet, range.subnet);
                return Err(fail!(InvalidConfig, "mixed address families", details: "{first} and {second}"));
            }
            ranges.push(range);
        }
        for (index, first) in ranges.iter().enumerate() {
            if let Some(second) = ranges[index + 1..].iter().find(|second| first.overlaps(second)) {
                return Err(fail!(InvalidConfig, "subnets {first} and {second} overlap"));
            }
        }
        if ranges.is_empty() { Err(fail!(InvalidConfig, "empty range set")) } else { Ok(Self(ranges)) }
    }

    /// The family of its addresses.
    pub fn family(&self) -> Family {
        self.0[0].family()
    }

    /// Whether an address is in one of the ranges.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.range_of(address).is_some()
    }

    /// Whether an address is the gateway of its range; such an address is never assigned.
    pub fn is_gateway(&self, address: IpAddr) -> bool {
        self.range_of(address).is_some_and(|range| range.gateway == address)
    }

    /// Whether two sets share an address.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().any(|range| other.0.iter().any(|second| range.overlaps(second)))
    }

    /// The ranges, in the order of the configuration.
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// The number of addresses that may be assigned.
    pub fn capacity(&self) -> u128 {
        self.0.iter().map(Range::capacity).fold(0, u128::saturating_add)
    }

    /// Every address that may be handed out, in the order in which they are tried: from the one after `last`
    /// through all ranges to `last` itself, or from the start.
    pub fn candidates(&self, last: Option<IpAddr>) -> impl Iterator<Item = IpAddr> + Clone {
        let place = last.and_then(|last| Some((self.0.iter().position(|range| range.contains(last))?, last)));
        let (at, behind, upto) = match place {
            Some((at, last)) => (at, ip_offset(last, 1), Some(last)),
            None => (0, Some(self.0[0].start), None),
        };
        let here = self.0[at];
        let others = self.0[at + 1..].iter().chain(&self.0[..at]).flat_map(Range::all);
        let rest = upto.into_iter().flat_map(move |last| here.between(Some(here.start), last));
        here.between(behind, here.end).chain(others).chain(rest)
    }

    /// An address of the set as it is printed in the result.
    pub fn ip_config(&self, address: IpAddr) -> IpConfig {
        let range = self.range_of(address).unwrap_or(&self.0[0]);
        let prefix = range.subnet.prefix();
        IpConfig { interface: None, address: Cidr::truncated(address, prefix), gateway: Some(range.gateway) }
    }

    fn range_of(&self, address: IpAddr) -> Option<&Range> {
        self.0.iter().find(|range| range.contains(address))
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{range}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
