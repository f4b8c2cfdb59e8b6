//! Decodes the expressions that any release of iptables-nft writes back to the rule.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::{ChainName, IfName};
use cni_netfilter::Proto;
use cni_netfilter::iptables::{IptablesRule, Mark, Match, PortRange, Target};
use cni_netfilter::nftables::{Direction, Equality, PacketEnd, Verdict};

use super::encode::RulePart;
use super::extension::protocol;
use crate::nftables::compile::PORT;
use crate::nftables::decompile::network;
use crate::nftables::instruction::{Header, Instruction, Meta};

/// The offset of the protocol in an IPv4 header: releases before 1.8.8 read it there.
const PROTOCOL_OFFSET: u32 = 9;
/// The same in an IPv6 header.
const NEXT_HEADER_OFFSET: u32 = 6;

/// The rule of some expressions, as [`IptablesRule::canonical`] has it; `None` for one that `iptables` has to read.
pub fn decode(family: Family, chain: &ChainName, parts: &[RulePart]) -> Option<IptablesRule> {
    let mut reader = RuleReader { family, proto: None, header: [const { None }; 4], matches: Vec::new() };
    let mut rest = parts;
    loop {
        rest = match rest {
            [] => return reader.finish(chain, Target::Raw(Vec::new())),
            [RulePart::Plain(Instruction::Verdict(verdict))] => return reader.finish(chain, target(verdict)?),
            [RulePart::Target(extension)] => return reader.finish(chain, extension.to_target(family)?),
            [RulePart::Counter, rest @ ..] => rest,
            _ => reader.step(rest)?,
        };
    }
}

struct RuleReader {
    family: Family,
    proto: Option<Proto>,
    /// Source, destination, and the links, which come first in a rule's text.
    header: [Option<Match>; 4],
    matches: Vec<Match>,
}

impl RuleReader {
    fn finish(self, chain: &ChainName, target: Target) -> Option<IptablesRule> {
        let implied = self.matches.iter().any(|one| one.protocol().is_some());
        let alone = self.proto.filter(|_| !implied).map(Match::Protocol);
        let matches = self.header.into_iter().flatten().chain(alone).chain(self.matches).collect();
        Some(IptablesRule::new(chain.clone(), matches, target))
    }

    fn step<'a>(&mut self, parts: &'a [RulePart]) -> Option<&'a [RulePart]> {
        match parts {
            [RulePart::Match(extension), rest @ ..] => {
                self.matches.push(extension.to_match(self.proto)?);
                Some(rest)
            }
            [RulePart::PacketMark, rest @ ..] => self.packet_mark(rest),
            [RulePart::Plain(load), RulePart::Within { first, last }, rest @ ..] if *load == PORT => {
                let port = |bytes: &[u8]| bytes.try_into().ok().map(u16::from_be_bytes);
                let ports = PortRange::new(port(first)?, port(last)?)?;
                self.matches.push(Match::PortRange(self.proto?, ports));
                Some(rest)
            }
            [RulePart::Plain(load), RulePart::Plain(Instruction::Compare(is, value)), rest @ ..] => {
                self.compare(load, None, *is, value)?;
                Some(rest)
            }
            [
                RulePart::Plain(load),
                RulePart::Plain(Instruction::Mask(bits)),
                RulePart::Plain(Instruction::Compare(is, value)),
                rest @ ..,
            ] => {
                self.compare(load, Some(bits), *is, value)?;
                Some(rest)
            }
            _ => None,
        }
    }

    fn packet_mark<'a>(&mut self, parts: &'a [RulePart]) -> Option<&'a [RulePart]> {
        let word = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_ne_bytes);
        let (mask, value, rest) = match parts {
            [RulePart::Plain(Instruction::Compare(Equality::Equal, value)), rest @ ..] => (u32::MAX, value, rest),
            [
                RulePart::Plain(Instruction::Mask(mask)),
                RulePart::Plain(Instruction::Compare(Equality::Equal, value)),
                rest @ ..,
            ] => (word(mask)?, value, rest),
            _ => return None,
        };
        self.matches.push(Match::Mark(Mark { value: word(value)?, mask }));
        Some(rest)
    }

    fn compare(&mut self, load: &Instruction, bits: Option<&Vec<u8>>, is: Equality, value: &[u8]) -> Option<()> {
        if let Instruction::Meta(meta @ (Meta::InName | Meta::OutName)) = load
            && bits.is_none()
        {
            return self.link(*meta, is, value);
        }
        let is_plain = bits.is_none() && is == Equality::Equal;
        let header = Instruction::Payload { header: Header::Network, offset: self.protocol_offset(), length: 1 };
        if is_plain && (*load == header || *load == Instruction::Meta(Meta::Transport)) {
            return self.protocol(value);
        }
        if is_plain && *load == PORT {
            self.matches.push(Match::Port(self.proto?, u16::from_be_bytes(value.try_into().ok()?)));
            return Some(());
        }
        self.address(load, bits, is, value)
    }

    const fn protocol_offset(&self) -> u32 {
        match self.family {
            Family::V4 => PROTOCOL_OFFSET,
            Family::V6 => NEXT_HEADER_OFFSET,
        }
    }

    fn protocol(&mut self, value: &[u8]) -> Option<()> {
        let [number] = value else { return None };
        self.proto.replace(protocol(*number)?).is_none().then_some(())
    }

    /// Stores a match that comes before the extensions at its position, which must be free.
    fn place(&mut self, at: usize, part: Match) -> Option<()> {
        self.header[at].replace(part).is_none().then_some(())
    }

    fn link(&mut self, meta: Meta, is: Equality, value: &[u8]) -> Option<()> {
        let text = std::str::from_utf8(value).ok()?;
        let name = match text.find('\0') {
            Some(end) if text[end..].bytes().all(|byte| byte == 0) => text[..end].to_owned(),
            Some(_) => return None,
            None => format!("{text}+"),
        };
        let name = IfName::parse(&name).ok()?;
        let (at, direction) = if meta == Meta::InName { (2, Direction::In) } else { (3, Direction::Out) };
        self.place(at, Match::Interface(direction, is, name))
    }

    fn address(&mut self, load: &Instruction, bits: Option<&Vec<u8>>, is: Equality, value: &[u8]) -> Option<()> {
        let (end, cidr) = network(self.family, load, bits, value).filter(|(_, cidr)| !is_mapped(*cidr))?;
        self.place(usize::from(end == PacketEnd::Destination), Match::Address(end, is, cidr))
    }
}

/// Whether the text of a network would be that of another: in configurations an IPv4-mapped address is IPv4. A rule
/// with such an address, which no plugin makes, is left to the programs of iptables.
fn is_mapped(cidr: Cidr) -> bool {
    cidr.family() == Family::V6 && cidr.to_string().parse() != Ok(cidr)
}

fn target(verdict: &Verdict) -> Option<Target> {
    Some(match verdict {
        Verdict::Accept => Target::Accept,
        Verdict::Drop => Target::Drop,
        Verdict::Return => Target::Return,
        Verdict::Jump(chain) => Target::Jump(ChainName::parse(chain.as_str()).ok()?),
        Verdict::Goto(chain) => Target::Raw(vec!["-g".to_owned(), chain.to_string()]),
    })
}
