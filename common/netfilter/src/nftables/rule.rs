//! A rule as a value: its chain, its expressions, its verdict and its owner.
//!
//! Only what the plugins themselves write has a type; everything else that a user asks for is kept as text.

use std::net::IpAddr;

use super::name::{NftComment, NftName};
use super::object::ChainId;
use crate::proto::Proto;
use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::IfName;

/// One of the two ends of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketEnd {
    /// The source of a packet.
    Source,
    /// The destination of a packet.
    Destination,
}

/// The link of a packet: incoming or outgoing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The one by which it came.
    In,
    /// The one by which it leaves.
    Out,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Equality {
    /// It is that, or part of it.
    Equal,
    /// It is something else.
    Other,
}

/// Where a packet goes next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It passes.
    Accept,
    /// The packet is dropped.
    Drop,
    /// The chain ends here.
    Return,
    /// The packet continues in another chain, and returns.
    Jump(NftName),
    /// The packet continues in another chain, and does not return.
    Goto(NftName),
}

/// A part of a rule: something that must hold, or something that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// An address of the packet is, or is not, part of a network. Host bits do not count.
    Address(PacketEnd, Equality, Cidr),
    /// The destination is an address of the host itself.
    LocalDestination,
    /// The destination is this port.
    Port(Proto, u16),
    /// The packet comes or leaves by this link, or by another one.
    Interface(Direction, Equality, IfName),
    /// The frame comes from this address.
    EtherSource(Mac),
    /// The packet is part of a connection that exists, or related to one.
    EstablishedRelated,
    /// The destination of the packet's connection has been translated.
    DestinationTranslated,
    /// An address of the packet is in the set of this name.
    InSet(PacketEnd, Family, NftName),
    /// What happens to the packet next.
    Verdict(Verdict),
    /// The packet gets the address of the link by which it leaves.
    Masquerade,
    /// The packet gets this destination, and this port.
    Dnat(IpAddr, Option<u16>),
    /// Text in the language of `nft`, which has no type here.
    Raw(Vec<String>),
}

impl Expression {
    /// The chain that packets enter by it, which must exist as long as the rule.
    pub const fn leads_to(&self) -> Option<&NftName> {
        if let Self::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) = self { Some(chain) } else { None }
    }

    /// The set that it looks in, which must exist as long as the rule.
    pub const fn looks_in(&self) -> Option<&NftName> {
        if let Self::InSet(.., set) = self { Some(set) } else { None }
    }
}

/// One rule of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftRule {
    /// The chain that the rule is in.
    pub chain: ChainId,
    /// Its parts in order.
    pub expressions: Vec<Expression>,
    /// The owner.
    pub comment: Option<NftComment>,
}

impl NftRule {
    /// A rule without owner, from its parts.
    pub const fn new(chain: ChainId, expressions: Vec<Expression>) -> Self {
        Self { chain, expressions, comment: None }
    }

    /// The same rule with an owner.
    #[must_use]
    pub fn with_comment(self, comment: NftComment) -> Self {
        Self { comment: Some(comment), ..self }
    }

    /// Whether the rule contains a user's own words, which only `nft` can read.
    pub fn has_words(&self) -> bool {
        self.expressions.iter().any(|expression| matches!(expression, Expression::Raw(_)))
    }
}
