//! The instructions of nf_tables and their attributes: `linux/netfilter/nf_tables.h`.
//!
//! Only the instructions that the plugins' rules need have a type. Comparisons always use the first register, as those
//! of `nft` do. Numbers of the protocol are big endian; data is in the byte order of the packet, or of the host if it
//! is not in a packet.

use cni_netfilter::nftables::{Equality, NftName, Verdict};
use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED};
use netlink_packet_netfilter::nftables::{ExpressionAttribute, ListAttribute};

use crate::netlink::attribute::{Attribute, field, find};

/// A fact about a packet that is not part of it: `enum nft_meta_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    /// The protocol in an Ethernet frame.
    Protocol = 1,
    /// The name of the link by which it came.
    InName = 6,
    /// The name of the link by which it leaves.
    OutName = 7,
    /// The kind of the link by which it came.
    InType = 8,
    /// IPv4 or IPv6.
    Family = 15,
    /// The transport protocol.
    Transport = 16,
}

impl Meta {
    const ALL: [Self; 6] = [Self::Protocol, Self::InName, Self::OutName, Self::InType, Self::Family, Self::Transport];
}

/// The header from which offsets are counted: `enum nft_payload_bases`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The Ethernet header.
    Link = 0,
    /// The IP header.
    Network = 1,
    /// The TCP, UDP or SCTP header.
    Transport = 2,
}

impl Header {
    const ALL: [Self; 3] = [Self::Link, Self::Network, Self::Transport];
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Loads a fact.
    Meta(Meta),
    /// Loads bytes of the packet.
    Payload { header: Header, offset: u32, length: u32 },
    /// Loads the type of the packet's destination.
    DestinationType,
    /// Loads the state of the packet's connection.
    ConnectionState,
    /// Loads what has been done to the packet's connection.
    ConnectionStatus,
    /// Keeps only some bits.
    Mask(Vec<u8>),
    /// Continues if what was loaded is, or is not, this.
    Compare(Equality, Vec<u8>),
    /// Continues if a set contains what was loaded.
    InSet(NftName),
    /// Loads a constant into a register.
    Load { register: u32, data: Vec<u8> },
    /// Ends the rule.
    Verdict(Verdict),
    /// Changes the destination: the address to the first register, the port to the second.
    Dnat { family: u32, port: bool },
    /// Changes the source to the address of the link by which the packet leaves.
    Masquerade,
}

/// Registers: `enum nft_registers`.
const VERDICT: u32 = 0;
const FIRST: u32 = 1;
const SECOND: u32 = 2;

/// `NFT_CMP_EQ` and `NFT_CMP_NEQ`.
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;

/// `NFTA_FIB_F_DADDR` and `NFT_FIB_RESULT_ADDRTYPE`.
const FIB_DESTINATION: u32 = 2;
const FIB_TYPE: u32 = 3;

/// `NFT_CT_STATE`, `NFT_CT_STATUS`, `NFT_NAT_DNAT`, `NF_NAT_RANGE_PROTO_SPECIFIED`.
const CT_STATE: u32 = 0;
const CT_STATUS: u32 = 2;
const NAT_DESTINATION: u32 = 1;
const NAT_PORT: u32 = 2;

/// `NF_DROP`, `NF_ACCEPT`, `NFT_JUMP`, `NFT_GOTO`, `NFT_RETURN`.
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const JUMP: u32 = -3_i32 as u32;
const GOTO: u32 = -4_i32 as u32;
const RETURN: u32 = -5_i32 as u32;

/// `NFTA_DATA_VALUE` and `NFTA_DATA_VERDICT`.
const VALUE: u16 = 1;
const VERDICT_DATA: u16 = 2;

/// `NFTA_LIST_ELEM`, and in it `NFTA_EXPR_NAME` and `NFTA_EXPR_DATA`.
const LIST_ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;

pub fn be32(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_be_bytes().to_vec())
}

pub fn text(kind: u16, text: &str) -> DefaultNla {
    DefaultNla::new(kind, [text.as_bytes(), &[0]].concat())
}

pub fn nested(kind: u16, inner: &[DefaultNla]) -> DefaultNla {
    let mut bytes = vec![0; inner.buffer_len()];
    inner.emit(&mut bytes);
    DefaultNla::new(kind | NLA_F_NESTED, bytes)
}

/// An expression of a rule, by its name and its attributes, in bytes: attributes inside of attributes are measured again at each level.
pub fn expression((name, attributes): (&str, Vec<DefaultNla>)) -> ListAttribute<ExpressionAttribute> {
    ListAttribute::Other(nested(LIST_ELEMENT, &[text(EXPRESSION_NAME, name), nested(EXPRESSION_DATA, &attributes)]))
}

pub fn data(kind: u16, bytes: &[u8]) -> DefaultNla {
    nested(kind, &[DefaultNla::new(VALUE, bytes.to_vec())])
}

/// A verdict as an attribute.
pub fn verdict(kind: u16, verdict: &Verdict) -> DefaultNla {
    let inner = match verdict {
        Verdict::Accept => vec![be32(1, ACCEPT)],
        Verdict::Drop => vec![be32(1, DROP)],
        Verdict::Return => vec![be32(1, RETURN)],
        Verdict::Jump(chain) => vec![be32(1, JUMP), text(2, chain.as_str())],
        Verdict::Goto(chain) => vec![be32(1, GOTO), text(2, chain.as_str())],
    };
    nested(kind, &[nested(VERDICT_DATA, &inner)])
}

impl Instruction {
    /// The name of the instruction, and its attributes.
    pub fn encode(&self) -> (&'static str, Vec<DefaultNla>) {
        match self {
            Self::Meta(key) => ("meta", vec![be32(2, *key as u32), be32(1, FIRST)]),
            Self::Payload { header, offset, length } => {
                ("payload", vec![be32(1, FIRST), be32(2, *header as u32), be32(3, *offset), be32(4, *length)])
            }
            Self::DestinationType => ("fib", vec![be32(3, FIB_DESTINATION), be32(2, FIB_TYPE), be32(1, FIRST)]),
            Self::ConnectionState => ("ct", vec![be32(2, CT_STATE), be32(1, FIRST)]),
            Self::ConnectionStatus => ("ct", vec![be32(2, CT_STATUS), be32(1, FIRST)]),
            Self::Mask(mask) => ("bitwise", bitwise(mask)),
            Self::Compare(is, bytes) => {
                let operator = match is {
                    Equality::Equal => EQUAL,
                    Equality::Other => NOT_EQUAL,
                };
                ("cmp", vec![be32(1, FIRST), be32(2, operator), data(3, bytes)])
            }
            Self::InSet(set) => ("lookup", vec![be32(2, FIRST), text(1, set.as_str())]),
            Self::Load { register, data: bytes } => ("immediate", vec![be32(1, *register), data(2, bytes)]),
            Self::Verdict(word) => ("immediate", vec![be32(1, VERDICT), verdict(2, word)]),
            Self::Dnat { family, port } => ("nat", nat(*family, *port)),
            Self::Masquerade => ("masq", Vec::new()),
        }
    }

    /// Reads an instruction that this or another program has written; `None` for any that has no type.
    pub fn decode(name: &str, bytes: &[u8]) -> Option<Self> {
        let parts = InstructionAttributes(bytes);
        match name {
            "meta" if parts.is(1, FIRST) => Meta::ALL.into_iter().find(|key| parts.is(2, *key as u32)).map(Self::Meta),
            "payload" if parts.is(1, FIRST) => {
                let header = Header::ALL.into_iter().find(|header| parts.is(2, *header as u32))?;
                Some(Self::Payload { header, offset: parts.be32(3)?, length: parts.be32(4)? })
            }
            "fib" => (parts.is(1, FIRST) && parts.is(2, FIB_TYPE) && parts.is(3, FIB_DESTINATION))
                .then_some(Self::DestinationType),
            // An attribute for the direction would be number 3.
            "ct" if parts.is(1, FIRST) && parts.find(3).is_none() => match parts.be32(2)? {
                CT_STATE => Some(Self::ConnectionState),
                CT_STATUS => Some(Self::ConnectionStatus),
                _ => None,
            },
            "bitwise" => parts.mask().map(Self::Mask),
            "cmp" if parts.is(1, FIRST) => {
                let is = if parts.is(2, EQUAL) { Equality::Equal } else { Equality::Other };
                (parts.is(2, EQUAL) || parts.is(2, NOT_EQUAL)).then_some(Self::Compare(is, parts.value(3)?))
            }
            "lookup" => parts.lookup(),
            "immediate" if parts.is(1, VERDICT) => parts.verdict(2).map(Self::Verdict),
            "immediate" => Some(Self::Load { register: parts.be32(1)?, data: parts.value(2)? }),
            "nat" => parts.nat(),
            "masq" => (parts.is_unset(1) && parts.is_unset(2) && parts.is_unset(3)).then_some(Self::Masquerade),
            _ => None,
        }
    }
}

fn bitwise(mask: &[u8]) -> Vec<DefaultNla> {
    let length = u32::try_from(mask.len()).unwrap_or(u32::MAX);
    let zero = vec![0; mask.len()];
    vec![be32(1, FIRST), be32(2, FIRST), be32(3, length), data(4, mask), data(5, &zero)]
}

fn nat(family: u32, port: bool) -> Vec<DefaultNla> {
    let mut attributes = vec![be32(1, NAT_DESTINATION), be32(2, family), be32(3, FIRST)];
    if port {
        attributes.extend([be32(5, SECOND), be32(7, NAT_PORT)]);
    }
    attributes
}

/// The attributes of an instruction.
#[derive(Clone, Copy)]
pub(super) struct InstructionAttributes<'a>(pub(super) &'a [u8]);

impl<'a> InstructionAttributes<'a> {
    pub(super) fn find(self, kind: u16) -> Option<Attribute<'a>> {
        find(self.0, kind)
    }

    pub(super) fn be32(self, kind: u16) -> Option<u32> {
        field(self.find(kind)?.value, 0).map(u32::from_be_bytes)
    }

    pub(super) fn is(self, kind: u16, value: u32) -> bool {
        self.be32(kind) == Some(value)
    }

    /// Whether a number is absent or zero.
    fn is_unset(self, kind: u16) -> bool {
        self.be32(kind).is_none_or(|value| value == 0)
    }

    fn text(self, kind: u16) -> Option<NftName> {
        NftName::parse(&self.find(kind)?.text()).ok()
    }

    pub(super) fn value(self, kind: u16) -> Option<Vec<u8>> {
        self.find(kind)?.part(VALUE).map(|value| value.value.to_vec())
    }

    fn verdict(self, kind: u16) -> Option<Verdict> {
        let inner = self.find(kind)?.part(VERDICT_DATA)?;
        let inner = InstructionAttributes(inner.value);
        match inner.be32(1)? {
            ACCEPT => Some(Verdict::Accept),
            DROP => Some(Verdict::Drop),
            RETURN => Some(Verdict::Return),
            JUMP => inner.text(2).map(Verdict::Jump),
            GOTO => inner.text(2).map(Verdict::Goto),
            _ => None,
        }
    }

    fn mask(self) -> Option<Vec<u8>> {
        let plain = self.is(1, FIRST) && self.is(2, FIRST) && self.is_unset(6);
        let mask = self.value(4)?;
        let xor = self.value(5)?;
        (plain && xor.iter().all(|byte| *byte == 0)).then_some(mask)
    }

    fn lookup(self) -> Option<Instruction> {
        let plain = self.is(2, FIRST) && self.find(3).is_none() && self.is_unset(5);
        plain.then(|| self.text(1).map(Instruction::InSet)).flatten()
    }

    /// The kernel sends the ends of the ranges and its flags, too.
    fn nat(self) -> Option<Instruction> {
        let address = self.is(3, FIRST) && self.be32(4).is_none_or(|last| last == FIRST);
        let port = self.is(5, SECOND) && self.be32(6).is_none_or(|last| last == SECOND);
        let known = self.is(1, NAT_DESTINATION) && address && (port || self.find(5).is_none());
        let flags = self.be32(7).unwrap_or_default() & !(NAT_ADDRESS | NAT_PORT);
        (known && flags == 0).then_some(Instruction::Dnat { family: self.be32(2)?, port })
    }
}

/// `NF_NAT_RANGE_MAP_IPS`.
const NAT_ADDRESS: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_type_is_not_misread() {
        let emitted = |attributes: &[DefaultNla]| {
            let mut bytes = vec![0; attributes.buffer_len()];
            attributes.emit(&mut bytes);
            bytes
        };
        for (name, attributes) in [
            ("counter", vec![]),
            ("meta", vec![be32(2, 3), be32(1, FIRST)]),
            ("meta", vec![be32(2, 6), be32(1, SECOND)]),
            ("cmp", vec![be32(1, FIRST), be32(2, 2), data(3, &[1])]),
            ("lookup", vec![be32(2, FIRST), text(1, "s"), be32(5, 1)]),
            ("lookup", vec![be32(2, FIRST), be32(3, VERDICT), text(1, "m")]),
            ("masq", vec![be32(1, 8)]),
            ("nat", vec![be32(1, 0), be32(2, 2), be32(3, FIRST)]),
            ("nat", vec![be32(1, 1), be32(2, 2), be32(3, FIRST), be32(7, 4)]),
            ("bitwise", vec![be32(1, FIRST), be32(2, FIRST), data(4, &[1]), data(5, &[1])]),
            ("ct", vec![be32(2, 0), be32(1, FIRST), DefaultNla::new(3, vec![0])]),
        ] {
            assert_eq!(Instruction::decode(name, &emitted(&attributes)), None, "{name} {attributes:?}");
        }
    }
}
