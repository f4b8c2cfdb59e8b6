//! The parts of a rule of iptables-nft: instructions of nf_tables, and extensions of x_tables, which the kernel's
//! `nft_compat` runs as instructions.

use netlink_packet_core::DefaultNla;

use super::extension::Extension;
use crate::netlink::attribute::{attributes, field};
use crate::nftables::instruction::{Instruction, be32, data, text};

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
        match name {
            "counter" => Some(Self::Counter),
            "match" => decoded(bytes).map(Self::Match),
            "target" => decoded(bytes).map(Self::Target),
            "meta" if number(bytes, 2) == Some(META_MARK) && number(bytes, 1) == Some(1) => Some(Self::PacketMark),
            "range" if number(bytes, 1) == Some(1) && number(bytes, 2) == Some(0) => {
                Some(Self::Within { first: value(bytes, 3)?, last: value(bytes, 4)? })
            }
            name => Instruction::decode(name, bytes).map(Self::Plain),
        }
    }
}

/// `NFTA_MATCH_NAME`, `NFTA_MATCH_REV`, `NFTA_MATCH_INFO`; those of targets have the same numbers.
fn encoded(Extension { name, revision, info }: &Extension) -> Vec<DefaultNla> {
    vec![text(1, name), be32(2, *revision), DefaultNla::new(3, info.clone())]
}

fn decoded(data: &[u8]) -> Option<Extension> {
    let part = |kind| attributes(data).find(|attribute| attribute.kind == kind);
    Some(Extension { name: part(1)?.text(), revision: number(data, 2)?, info: part(3)?.value.to_vec() })
}

/// The bytes of a `NFTA_DATA_VALUE`.
fn value(data: &[u8], kind: u16) -> Option<Vec<u8>> {
    let found = attributes(data).find(|attribute| attribute.kind == kind)?;
    found.nested().find(|attribute| attribute.kind == 1).map(|value| value.value.to_vec())
}

fn number(data: &[u8], kind: u16) -> Option<u32> {
    field(attributes(data).find(|attribute| attribute.kind == kind)?.value, 0).map(u32::from_be_bytes)
}
