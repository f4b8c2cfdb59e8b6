//! The parts of a rule of iptables-nft: instructions of nf_tables, and extensions of x_tables, which the kernel's
//! `nft_compat` runs as instructions.

use netlink_packet_core::DefaultNla;

use super::extension::Extension;
use crate::nftables::instruction::{Instruction, InstructionAttributes, be32, data, text};

/// One part of a rule.
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
