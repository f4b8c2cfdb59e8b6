//! Encodes a rule of iptables as the expressions that iptables-nft writes for it.
//!
//! The expressions are those of iptables 1.8.9, except ports and marks. These are written as extensions of x_tables,
//! which all releases read; 1.8.7 misreads the newer form.

use cni_core::family::Family;
use cni_core::names::{ChainName, IfName};
use cni_netfilter::iptables::{IptablesRule, Match, Target};
use cni_netfilter::nftables::{Direction, Equality, NftName, PacketEnd, Verdict};
use netlink_packet_core::DefaultNla;

use super::extension::Extension;
use crate::nftables::compile::{compare_network, transport_number};
use crate::nftables::instruction::{Instruction, InstructionAttributes, Meta, be32, data, text};

/// The expressions of a rule; `None` for one that is left to iptables.
pub fn encode(family: Family, rule: &IptablesRule) -> Option<Vec<RulePart>> {
    let matches = &rule.matches;
    if matches.iter().enumerate().any(|(at, one)| matches[..at].iter().any(|other| is_same_option(one, other))) {
        return None;
    }
    let mut parts = Vec::new();
    for one in matches {
        if let Match::Interface(direction, is, name) = one {
            let meta = if *direction == Direction::In { Meta::InName } else { Meta::OutName };
            parts.extend([Instruction::Meta(meta), Instruction::Compare(*is, link_name(name))].map(RulePart::Plain));
        }
    }
    if let Some(proto) = rule.protocol() {
        let compare = Instruction::Compare(Equality::Equal, vec![transport_number(proto)]);
        parts.extend([Instruction::Meta(Meta::Transport), compare].map(RulePart::Plain));
    }
    for end in [PacketEnd::Source, PacketEnd::Destination] {
        for one in matches {
            if let Match::Address(at, is, cidr) = one
                && *at == end
            {
                let compare = Some(*cidr).filter(|cidr| cidr.family() == family)?;
                parts.extend(compare_network(end, *is, compare).into_iter().map(RulePart::Plain));
            }
        }
    }
    for one in matches {
        if !matches!(one, Match::Interface(..) | Match::Protocol(_) | Match::Address(..)) {
            parts.push(RulePart::Match(Extension::of_match(one)?));
        }
    }
    parts.push(RulePart::Counter);
    match verdict(&rule.target)? {
        Some(verdict) => parts.push(RulePart::Plain(Instruction::Verdict(verdict))),
        None => parts.push(RulePart::Target(Extension::of_target(family, &rule.target)?)),
    }
    Some(parts)
}

/// Whether both belong to an option of the rule itself, which iptables accepts once.
fn is_same_option(one: &Match, other: &Match) -> bool {
    match (one, other) {
        (Match::Interface(one, ..), Match::Interface(other, ..)) => one == other,
        (Match::Address(one, ..), Match::Address(other, ..)) => one == other,
        _ => false,
    }
}

/// The number of the transport protocol that a rule is for; zero for any.
pub fn protocol_number(rule: &IptablesRule) -> u32 {
    rule.protocol().map_or(0, |proto| u32::from(transport_number(proto)))
}

/// A name is compared with its end mark; without one, any ending would do.
fn link_name(name: &IfName) -> Vec<u8> {
    match name.as_str().strip_suffix('+') {
        Some(start) if !start.is_empty() => start.as_bytes().to_vec(),
        Some(_) | None => [name.as_str().as_bytes(), &[0]].concat(),
    }
}

/// The verdict that a target is: `Some(None)` when it is an extension, `None` when it is left to iptables.
fn verdict(target: &Target) -> Option<Option<Verdict>> {
    let name = |chain: &ChainName| NftName::parse(chain.as_str()).ok();
    match target {
        Target::Accept => Some(Some(Verdict::Accept)),
        Target::Drop => Some(Some(Verdict::Drop)),
        Target::Return => Some(Some(Verdict::Return)),
        Target::Jump(chain) => name(chain).map(Verdict::Jump).map(Some),
        Target::Masquerade | Target::Dnat(_) | Target::DnatAddress(_) | Target::Redirect(_) | Target::SetMark(_) => {
            Some(None)
        }
        Target::Raw(_) => None,
    }
}

/// One part of a rule: an instruction, or an extension of x_tables, which the kernel's `nft_compat` runs as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulePart {
    /// An instruction of nf_tables.
    Plain(Instruction),
    /// Loads the mark of the packet.
    PacketMark,
    /// Compares with a range: `NFT_RANGE_EQ`.
    Within { first: Vec<u8>, last: Vec<u8> },
    /// Counts packets and bytes.
    Counter,
    /// A match of x_tables.
    Match(Extension),
    /// A target of x_tables.
    Target(Extension),
}

/// `NFT_META_MARK`.
const META_MARK: u32 = 3;

impl RulePart {
    /// The name of the expression, and its attributes.
    pub fn encode(&self) -> (&'static str, Vec<DefaultNla>) {
        match self {
            Self::Plain(instruction) => instruction.encode(),
            Self::PacketMark => ("meta", vec![be32(2, META_MARK), be32(1, 1)]),
            Self::Within { first, last } => ("range", vec![be32(1, 1), be32(2, 0), data(3, first), data(4, last)]),
            // NFTA_COUNTER_BYTES and NFTA_COUNTER_PACKETS.
            Self::Counter => ("counter", [1, 2].map(|kind| DefaultNla::new(kind, vec![0; 8])).to_vec()),
            Self::Match(extension) => ("match", encoded(extension)),
            Self::Target(extension) => ("target", encoded(extension)),
        }
    }

    /// Reads an expression by its name and its attributes; `None` for any that has no type.
    pub fn decode(name: &str, bytes: &[u8]) -> Option<Self> {
        let parts = InstructionAttributes(bytes);
        match name {
            "counter" => Some(Self::Counter),
            "match" => decoded(parts).map(Self::Match),
            "target" => decoded(parts).map(Self::Target),
            "meta" if parts.is(2, META_MARK) && parts.is(1, 1) => Some(Self::PacketMark),
            "range" if parts.is(1, 1) && parts.is(2, 0) => {
                Some(Self::Within { first: parts.value(3)?, last: parts.value(4)? })
            }
            name => Instruction::decode(name, bytes).map(Self::Plain),
        }
    }
}

/// `NFTA_MATCH_NAME`, `NFTA_MATCH_REV`, `NFTA_MATCH_INFO`; those of targets have the same numbers.
fn encoded(Extension { name, revision, info }: &Extension) -> Vec<DefaultNla> {
    vec![text(1, name), be32(2, *revision), DefaultNla::new(3, info.clone())]
}

fn decoded(parts: InstructionAttributes<'_>) -> Option<Extension> {
    Some(Extension { name: parts.find(1)?.text(), revision: parts.be32(2)?, info: parts.find(3)?.value.to_vec() })
}
