//! Decodes instructions, written by any program, back to a rule.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_netfilter::Proto;
use cni_netfilter::nftables::{Direction, Equality, Expression, PacketEnd, TableFamily};

use super::compile::{
    DESTINATION_TRANSLATED, ESTABLISHED_RELATED, ETHER_SOURCE, ETHERNET, LOCAL, PORT, address_offset, ether_type,
    family_number, mask, transport_number,
};
use super::instruction::{Header, Instruction, Meta};

/// The rule of some instructions; `None` when they are not those of any rule that has a type.
pub(super) fn decompile(table: TableFamily, instructions: &[Instruction]) -> Option<Vec<Expression>> {
    let family = match table {
        TableFamily::Ip => Some(Family::V4),
        TableFamily::Ip6 => Some(Family::V6),
        TableFamily::Inet | TableFamily::Bridge => None,
    };
    let mut known = PacketConditions { family, transport: None, ethernet: table == TableFamily::Bridge, unused: None };
    let mut expressions = Vec::new();
    let mut rest = instructions;
    while !rest.is_empty() {
        rest = match known.condition(rest) {
            Some(rest) => rest,
            None => {
                let (expression, rest) = known.expression(rest)?;
                expressions.push(expression);
                rest
            }
        };
    }
    Some(expressions).filter(|_| known.unused.is_none())
}

/// What is known of the packet from the conditions so far.
struct PacketConditions {
    family: Option<Family>,
    transport: Option<Proto>,
    ethernet: bool,
    /// The last condition, when nothing that needs it has followed yet, so that it may be meant for itself.
    unused: Option<Meta>,
}

impl PacketConditions {
    /// Takes a condition that another expression needs; returns what follows it.
    fn condition<'a>(&mut self, rest: &'a [Instruction]) -> Option<&'a [Instruction]> {
        let [Instruction::Meta(fact), Instruction::Compare(Equality::Equal, value), rest @ ..] = rest else {
            return None;
        };
        match fact {
            Meta::Family => self.take_family(|one| [family_number(one)] == **value)?,
            Meta::Protocol => self.take_family(|one| ether_type(one) == **value)?,
            Meta::Transport => {
                self.transport = Some(Proto::ALL.into_iter().find(|one| [transport_number(*one)] == **value)?);
            }
            Meta::InType if *value == ETHERNET => self.ethernet = true,
            Meta::InType | Meta::InName | Meta::OutName => return None,
        }
        if self.unused.replace(*fact).is_some() { None } else { Some(rest) }
    }

    /// `None` where the table, or a condition before, says that it is the other family: no packet passes then.
    fn take_family(&mut self, is_meant: impl Fn(Family) -> bool) -> Option<()> {
        let family = Family::ALL.into_iter().find(|one| is_meant(*one))?;
        (*self.family.get_or_insert(family) == family).then_some(())
    }

    fn expression<'a>(&mut self, rest: &'a [Instruction]) -> Option<(Expression, &'a [Instruction])> {
        match rest {
            [Instruction::Payload { header, .. }, ..] => {
                self.unused = self.unused.take().filter(|fact| !is_needed(*fact, *header));
                self.payload(rest)
            }
            [Instruction::DestinationType, Instruction::Compare(Equality::Equal, value), rest @ ..]
                if *value == LOCAL =>
            {
                Some((Expression::LocalDestination, rest))
            }
            [
                Instruction::ConnectionState,
                Instruction::Mask(bits),
                Instruction::Compare(Equality::Other, none),
                rest @ ..,
            ] if *bits == ESTABLISHED_RELATED && *none == [0; 4] => Some((Expression::EstablishedRelated, rest)),
            [
                Instruction::ConnectionStatus,
                Instruction::Mask(bits),
                Instruction::Compare(Equality::Other, none),
                rest @ ..,
            ] if *bits == DESTINATION_TRANSLATED && *none == [0; 4] => Some((Expression::DestinationTranslated, rest)),
            [Instruction::Meta(fact), Instruction::Compare(is, value), rest @ ..] => {
                Some((interface(*fact, *is, value)?, rest))
            }
            [Instruction::Load { .. }, ..] => dnat(rest),
            [Instruction::Verdict(verdict), rest @ ..] => Some((Expression::Verdict(verdict.clone()), rest)),
            [Instruction::Masquerade, rest @ ..] => Some((Expression::Masquerade, rest)),
            _ => None,
        }
    }

    fn payload<'a>(&self, rest: &'a [Instruction]) -> Option<(Expression, &'a [Instruction])> {
        let (load, rest) = rest.split_first()?;
        match rest {
            [Instruction::InSet(set), rest @ ..] => {
                let (end, family) = self.whole_address(load)?;
                Some((Expression::InSet(end, family, set.clone()), rest))
            }
            [Instruction::Compare(Equality::Equal, value), rest @ ..] if *load == PORT => {
                let port = u16::from_be_bytes(value.as_slice().try_into().ok()?);
                Some((Expression::Port(self.transport?, port), rest))
            }
            [Instruction::Compare(Equality::Equal, value), rest @ ..] if *load == ETHER_SOURCE && self.ethernet => {
                Some((Expression::EtherSource(Mac::from_kernel(value)?), rest))
            }
            [Instruction::Compare(is, value), rest @ ..] => {
                let (end, cidr) = network(self.family?, load, None, value)?;
                Some((Expression::Address(end, *is, cidr), rest))
            }
            [Instruction::Mask(bits), Instruction::Compare(is, value), rest @ ..] => {
                let (end, cidr) = network(self.family?, load, Some(bits), value)?;
                Some((Expression::Address(end, *is, cidr), rest))
            }
            _ => None,
        }
    }

    fn whole_address(&self, load: &Instruction) -> Option<(PacketEnd, Family)> {
        let Instruction::Payload { header: Header::Network, offset, length } = load else { return None };
        let family = self.family?;
        (*length == u32::from(family.bits() / 8)).then_some((end(*offset, family)?, family))
    }
}

/// Whether a condition only determines which header is read.
const fn is_needed(fact: Meta, header: Header) -> bool {
    match fact {
        Meta::Family | Meta::Protocol => matches!(header, Header::Network),
        Meta::Transport => matches!(header, Header::Transport),
        Meta::InType => matches!(header, Header::Link),
        Meta::InName | Meta::OutName => false,
    }
}

/// Reads a comparison of an address with a network. A value with other bits than those of the mask is no address of any
/// packet.
pub(super) fn network(
    family: Family,
    load: &Instruction,
    bits: Option<&Vec<u8>>,
    value: &[u8],
) -> Option<(PacketEnd, Cidr)> {
    let Instruction::Payload { header: Header::Network, offset, length } = load else { return None };
    if bits.is_some_and(|bits| bits.len() != value.len()) {
        return None;
    }
    let end = end(*offset, family)?;
    let prefix = bits.map_or_else(|| u8::try_from(value.len() * 8).ok(), |bits| prefix(bits))?;
    let mut bytes = value.to_vec();
    bytes.resize(usize::from(family.bits() / 8), 0);
    let cidr = Cidr::new(ip(&bytes)?, prefix).filter(|cidr| cidr.is_network())?;
    (usize::try_from(*length).ok() == Some(value.len())).then_some((end, cidr))
}

fn end(offset: u32, family: Family) -> Option<PacketEnd> {
    [PacketEnd::Source, PacketEnd::Destination].into_iter().find(|end| address_offset(*end, family) == offset)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// The number of bits that are set, when no other follows one that is not.
fn prefix(bits: &[u8]) -> Option<u8> {
    let ones = bits.iter().map(|byte| byte.count_ones()).sum::<u32>();
    let ones = u8::try_from(ones).ok()?;
    (mask(ones, bits.len()) == bits).then_some(ones)
}

/// A name that is compared up to its end mark; a shorter one would be the beginning of any name.
fn interface(fact: Meta, is: Equality, value: &[u8]) -> Option<Expression> {
    let direction = match fact {
        Meta::InName => Direction::In,
        Meta::OutName => Direction::Out,
        Meta::Protocol | Meta::InType | Meta::Family | Meta::Transport => return None,
    };
    let end = value.iter().position(|byte| *byte == 0).filter(|_| value.len() == super::compile::NAME_LENGTH)?;
    let name = IfName::parse(std::str::from_utf8(&value[..end]).ok()?).ok()?;
    Some(Expression::Interface(direction, is, name))
}

fn dnat(rest: &[Instruction]) -> Option<(Expression, &[Instruction])> {
    let (address, port, family, rest) = match rest {
        [
            Instruction::Load { register: 1, data: address },
            Instruction::Load { register: 2, data: port },
            Instruction::Dnat { family, port: true },
            rest @ ..,
        ] => (address, Some(u16::from_be_bytes(port.as_slice().try_into().ok()?)), family, rest),
        [Instruction::Load { register: 1, data: address }, Instruction::Dnat { family, port: false }, rest @ ..] => {
            (address, None, family, rest)
        }
        _ => return None,
    };
    let address = ip(address)?;
    (*family == u32::from(family_number(Family::of(address)))).then_some((Expression::Dnat(address, port), rest))
}

#[cfg(test)]
mod tests;
