//! A rule as a value: its chain, what it matches, what it does, and who owns it.
//!
//! Only what the plugins themselves write has a type; anything else that a user asks for is kept as the
//! text.

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
pub enum End {
    /// Where it comes from.
    Source,
    /// Where it goes to.
    Destination,
}

/// By which link a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The one by which it came.
    In,
    /// The one by which it leaves.
    Out,
}

/// How something of a packet compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Is {
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
    /// It is thrown away.
    Drop,
    /// The chain ends here.
    Return,
    /// It goes through another chain, and comes back.
    Jump(NftName),
    /// It goes through another chain, and does not come back.
    Goto(NftName),
}

/// A part of a rule: something that must hold, or something that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// An address of the packet is, or is not, part of a network. Host bits do not count.
    Address(End, Is, Cidr),
    /// The packet goes to an address of the host itself.
    LocalDestination,
    /// The packet goes to this port.
    Port(Proto, u16),
    /// The packet goes by this link, or by another.
    Interface(Direction, Is, IfName),
    /// The frame comes from this address.
    EtherSource(Mac),
    /// The packet is part of a connection that exists, or related to one.
    EstablishedRelated,
    /// The destination of the packet's connection has been translated.
    DestinationTranslated,
    /// An address of the packet is in the set of this name.
    InSet(End, Family, NftName),
    /// What happens to the packet next.
    Verdict(Verdict),
    /// The packet gets the address of the link by which it leaves.
    Masquerade,
    /// The packet gets this destination, and this port.
    Dnat(IpAddr, Option<u16>),
    /// Text in the language of `nft`, which has no type here.
    Raw(Vec<String>),
}

/// What of its table an expression names, which has to be there as long as the rule is.
enum Named<'a> {
    /// A chain that packets enter by it.
    Chain(&'a NftName),
    /// A set that it looks in.
    Set(&'a NftName),
}

impl Expression {
    const fn named(&self) -> Option<Named<'_>> {
        match self {
            Self::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => Some(Named::Chain(chain)),
            Self::InSet(.., set) => Some(Named::Set(set)),
            Self::Verdict(Verdict::Accept | Verdict::Drop | Verdict::Return)
            | Self::Address(..)
            | Self::LocalDestination
            | Self::Port(..)
            | Self::Interface(..)
            | Self::EtherSource(_)
            | Self::EstablishedRelated
            | Self::DestinationTranslated
            | Self::Masquerade
            | Self::Dnat(..)
            | Self::Raw(_) => None,
        }
    }

    /// The chain that packets enter by it.
    pub const fn leads_to(&self) -> Option<&NftName> {
        if let Some(Named::Chain(name)) = self.named() { Some(name) } else { None }
    }

    /// The set that it looks in.
    pub const fn looks_in(&self) -> Option<&NftName> {
        if let Some(Named::Set(name)) = self.named() { Some(name) } else { None }
    }
}

/// One rule of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftRule {
    /// The chain that the rule is in.
    pub chain: ChainId,
    /// Its parts in order.
    pub expressions: Vec<Expression>,
    /// Who owns it.
    pub comment: Option<NftComment>,
}

impl NftRule {
    /// A rule without owner, from its parts.
    pub const fn new(chain: ChainId, expressions: Vec<Expression>) -> Self {
        Self { chain, expressions, comment: None }
    }

    /// The same rule, somebody's.
    #[must_use]
    pub fn with_comment(self, comment: NftComment) -> Self {
        Self { comment: Some(comment), ..self }
    }

    /// Whether a user's own words are part of the rule, which only `nft` understands.
    pub fn has_words(&self) -> bool {
        self.expressions.iter().any(|expression| matches!(expression, Expression::Raw(_)))
    }
}
