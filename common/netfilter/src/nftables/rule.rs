//! A rule as a value: its chain, its expressions, its verdict and its owner; and its text: exactly what `nft list ruleset` prints
//! (nftables 1.0.6), and what `nft -f` reads.
//!
//! Only what the plugins themselves write has a type; everything else that a user asks for is kept as text.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::IfName;

use super::name::{NftComment, NftName};
use super::object::{ChainId, TableFamily};
use crate::flows::Proto;

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

impl fmt::Display for NftRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain, expressions, comment } = self;
        f.write_str(&text(chain.table.family, expressions))?;
        match comment {
            Some(comment) if expressions.is_empty() => write!(f, "comment \"{comment}\""),
            Some(comment) => write!(f, " comment \"{comment}\""),
            None => Ok(()),
        }
    }
}

/// The text of some expressions of a rule in a table of this family.
pub fn text(family: TableFamily, expressions: &[Expression]) -> String {
    expressions.iter().map(|expression| word(family, expression)).collect::<Vec<_>>().join(" ")
}

fn word(table: TableFamily, expression: &Expression) -> String {
    match expression {
        Expression::Address(end, is, cidr) => {
            format!("{} {}{}", address_field(*end, cidr.family()), operator(*is), network(*cidr))
        }
        Expression::LocalDestination => "fib daddr type local".to_owned(),
        Expression::Port(proto, port) => format!("{proto} dport {port}"),
        Expression::Interface(direction, is, name) => {
            let field = match direction {
                Direction::In => "iifname",
                Direction::Out => "oifname",
            };
            format!("{field} {}\"{}\"", operator(*is), interface(name))
        }
        Expression::EtherSource(mac) => format!("ether saddr {mac}"),
        Expression::EstablishedRelated => "ct state established,related".to_owned(),
        Expression::DestinationTranslated => "ct status dnat".to_owned(),
        Expression::InSet(end, family, set) => format!("{} @{set}", address_field(*end, *family)),
        Expression::Verdict(verdict) => verdict.to_string(),
        Expression::Masquerade => "masquerade".to_owned(),
        Expression::Dnat(address, port) => dnat(table, *address, *port),
        Expression::Raw(words) => words.join(" "),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept => f.write_str("accept"),
            Self::Drop => f.write_str("drop"),
            Self::Return => f.write_str("return"),
            Self::Jump(chain) => write!(f, "jump {chain}"),
            Self::Goto(chain) => write!(f, "goto {chain}"),
        }
    }
}

const fn operator(is: Equality) -> &'static str {
    match is {
        Equality::Equal => "",
        Equality::Other => "!= ",
    }
}

fn address_field(end: PacketEnd, family: Family) -> String {
    let end = match end {
        PacketEnd::Source => "saddr",
        PacketEnd::Destination => "daddr",
    };
    format!("{} {end}", TableFamily::from(family))
}

fn network(cidr: Cidr) -> String {
    if cidr.prefix() == cidr.family().bits() { cidr.address().to_string() } else { cidr.network().to_string() }
}

/// A star at the end of a name would mean any ending.
fn interface(name: &IfName) -> String {
    match name.as_str().strip_suffix('*') {
        Some(start) => format!("{start}\\*"),
        None => name.to_string(),
    }
}

/// The text of DNAT. A table of one family does not name the family of the address.
fn dnat(table: TableFamily, address: IpAddr, port: Option<u16>) -> String {
    let family = match table {
        TableFamily::Ip | TableFamily::Ip6 => String::new(),
        TableFamily::Inet | TableFamily::Bridge => format!("{} ", TableFamily::from(Family::of(address))),
    };
    let to = port.map_or_else(|| address.to_string(), |port| SocketAddr::new(address, port).to_string());
    format!("dnat {family}to {to}")
}
