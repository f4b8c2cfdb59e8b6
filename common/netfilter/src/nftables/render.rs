//! The text of a rule: exactly what `nft list ruleset` prints (nftables 1.0.6), and what `nft -f` reads.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::object::TableFamily;
use super::rule::{Direction, Equality, Expression, NftRule, PacketEnd, Verdict};
use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::IfName;

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
