//! A rule as a value: its chain, its matches and its target.
//!
//! Only what the plugins themselves write has a type; everything else that a host has, or a user asks for, is kept as
//! text.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::flows::Proto;
use crate::nftables::{Direction, Equality, PacketEnd};
use cni_core::cidr::Cidr;
use cni_core::names::{ChainName, Comment, IfName};

/// A table of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IptablesTable {
    /// Address translation.
    Nat,
    /// Admission.
    Filter,
}

impl IptablesTable {
    /// All that have a type here.
    pub const ALL: [Self; 2] = [Self::Nat, Self::Filter];

    /// The name of the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Filter => "filter",
        }
    }
}

impl fmt::Display for IptablesTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A value of the packet mark and the bits of it that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    pub value: u32,
    /// The bits that are compared, or set.
    pub mask: u32,
}

impl Mark {
    /// One bit of the mark; `None` past bit 31.
    pub const fn bit(bit: u8) -> Option<Self> {
        if bit > 31 {
            return None;
        }
        Some(Self { value: 1 << bit, mask: 1 << bit })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}/{:#x}", self.value, self.mask)
    }
}

/// One to fifteen ports: `XT_MULTI_PORTS` of `linux/netfilter/xt_multiport.h`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortSet(Vec<u16>);

impl PortSet {
    /// The most ports that one rule holds.
    pub const MAX: usize = 15;

    /// Makes a set of sorted ports; `None` for none or too many.
    pub fn new(ports: Vec<u16>) -> Option<Self> {
        (1..=Self::MAX).contains(&ports.len()).then_some(Self(ports))
    }

    /// Spreads any number of ports over sets, in order.
    pub fn chunks(ports: &[u16]) -> Vec<Self> {
        ports.chunks(Self::MAX).map(|chunk| Self(chunk.to_vec())).collect()
    }

    /// The ports in order.
    pub fn ports(&self) -> &[u16] {
        &self.0
    }
}

/// Ports next to each other: more than one, and not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The ports of a range; `None` for a single one, for all, and for an empty range. For all ports, iptables keeps
    /// only the protocol.
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first >= last || (first == 0 && last == u16::MAX) { None } else { Some(Self { first, last }) }
    }

    /// The lowest and the highest port.
    pub const fn bounds(self) -> (u16, u16) {
        (self.first, self.last)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.first, self.last)
    }
}

/// Numbers of users next to each other: one, or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UidRange {
    first: u32,
    last: u32,
}

impl UidRange {
    /// The highest user number: the next one means "nobody", and `xt_owner` does not accept it.
    pub const MAX: u32 = u32::MAX - 1;

    /// The users of a range; `None` for an empty range, and beyond [`UidRange::MAX`].
    pub const fn new(first: u32, last: u32) -> Option<Self> {
        if first > last || last > Self::MAX { None } else { Some(Self { first, last }) }
    }

    /// The lowest and the highest number.
    pub const fn bounds(self) -> (u32, u32) {
        (self.first, self.last)
    }
}

impl fmt::Display for UidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// `-s` or `-d`: an address is, or is not, part of this network. Host bits do not count; a prefix of 0 matches
    /// everything and has no text.
    Address(PacketEnd, Equality, Cidr),
    /// `-i` or `-o`: by this interface, or by another.
    Interface(Direction, Equality, IfName),
    /// The packet has this protocol, with any port. A match on ports implies it.
    Protocol(Proto),
    /// To an address of the host itself.
    LocalDestination,
    /// To this port.
    Port(Proto, u16),
    /// To one of these ports, which are next to each other.
    PortRange(Proto, PortRange),
    /// To one of these ports.
    Ports(Proto, PortSet),
    /// With these bits in the packet mark.
    Mark(Mark),
    /// Sent by a process of one of these users.
    User(UidRange),
    /// Part of a connection that exists, or related to one.
    RelatedEstablished,
    /// Matches every packet; names the owner of the rule.
    Comment(Comment),
    /// Options of iptables that have no type here.
    Raw(Vec<String>),
}

/// What happens to a matching packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// It passes.
    Accept,
    /// The packet is dropped.
    Drop,
    /// The chain ends here.
    Return,
    /// It gets the address of the interface by which it leaves.
    Masquerade,
    /// It gets this destination.
    Dnat(SocketAddr),
    /// It gets this destination, and keeps its port.
    DnatAddress(IpAddr),
    /// The packet goes to this port of the machine itself.
    Redirect(u16),
    /// It gets this mark.
    SetMark(Mark),
    /// The packet continues in another chain.
    Jump(ChainName),
    /// The words at the end of the rule, including `-j` or `-g`; none for a rule that only counts packets.
    Raw(Vec<String>),
}

impl Match {
    /// The packet is from this network.
    pub const fn source(cidr: Cidr) -> Self {
        Self::Address(PacketEnd::Source, Equality::Equal, cidr)
    }

    /// The packet is to this network.
    pub const fn destination(cidr: Cidr) -> Self {
        Self::Address(PacketEnd::Destination, Equality::Equal, cidr)
    }

    /// The protocol that it asks for.
    pub const fn protocol(&self) -> Option<Proto> {
        if let Self::Protocol(proto) | Self::Port(proto, _) | Self::PortRange(proto, _) | Self::Ports(proto, _) = self {
            Some(*proto)
        } else {
            None
        }
    }
}

/// One rule of a chain.
///
/// The order of the matches matters, except for addresses, interfaces and the protocol: these come first in a rule's
/// text, wherever they are here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IptablesRule {
    /// The chain that the rule is in.
    pub chain: ChainName,
    /// The conditions; all must hold.
    pub matches: Vec<Match>,
    /// What happens to a matching packet.
    pub target: Target,
}

impl IptablesRule {
    /// Joins the parts of a rule.
    pub const fn new(chain: ChainName, matches: Vec<Match>, target: Target) -> Self {
        Self { chain, matches, target }
    }

    /// Whether the rule jumps to a chain.
    pub fn jumps_to(&self, chain: &ChainName) -> bool {
        matches!(&self.target, Target::Jump(to) if to == chain)
    }

    /// The protocol that packets must be of, when the rule asks for one.
    pub fn protocol(&self) -> Option<Proto> {
        self.matches.iter().find_map(Match::protocol)
    }

    /// The network that packets must come from, when the rule asks for one.
    pub fn source(&self) -> Option<Cidr> {
        self.matches.iter().find_map(|one| {
            if let Match::Address(PacketEnd::Source, Equality::Equal, cidr) = one { Some(*cidr) } else { None }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_spread_over_rules_of_fifteen() {
        let ports: Vec<u16> = (9000..9020).collect();
        let sets = PortSet::chunks(&ports);
        assert_eq!(sets.iter().map(|set| set.ports().len()).collect::<Vec<_>>(), [15, 5]);
        assert_eq!(PortSet::new(ports), None);
        assert_eq!(PortSet::new(Vec::new()), None);
    }

    #[test]
    fn ranges_hold_what_iptables_prints_as_ranges() {
        assert_eq!(PortRange::new(8000, 8005).expect("a range").to_string(), "8000:8005");
        assert_eq!([PortRange::new(80, 80), PortRange::new(81, 80), PortRange::new(0, u16::MAX)], [None; 3]);
        let users = |first, last| UidRange::new(first, last).map(|users| users.to_string());
        assert_eq!(users(101, 101).as_deref(), Some("101"));
        assert_eq!(users(0, UidRange::MAX).as_deref(), Some("0-4294967294"));
        assert_eq!([users(2, 1), users(0, u32::MAX)], [None, None]);
    }

    #[test]
    fn a_mark_has_thirty_two_bits() {
        assert_eq!(Mark::bit(13).expect("bit").to_string(), "0x2000/0x2000");
        assert_eq!(Mark::bit(31).expect("bit").to_string(), "0x80000000/0x80000000");
        assert_eq!(Mark::bit(32), None);
    }
}
