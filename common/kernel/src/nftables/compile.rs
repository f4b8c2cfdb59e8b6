//! Compiles a rule to the instructions that `nft` (1.0.6) would write for it, so that `nft` lists the same rule.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_netfilter::Proto;
use cni_netfilter::nftables::{Direction, Equality, Expression, NftName, PacketEnd, TableFamily};

use super::instruction::{Header, Instruction, Meta};

/// `NFPROTO_IPV4` and `NFPROTO_IPV6`.
pub const fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// The protocol in an Ethernet frame.
pub const fn ether_type(family: Family) -> [u8; 2] {
    match family {
        Family::V4 => [0x08, 0x00],
        Family::V6 => [0x86, 0xdd],
    }
}

/// The number of a transport protocol, from IANA.
pub const fn transport_number(proto: Proto) -> u8 {
    match proto {
        Proto::Tcp => 6,
        Proto::Udp => 17,
        Proto::Dccp => 33,
        Proto::Sctp => 132,
    }
}

/// The offset of an address in its header.
pub const fn address_offset(end: PacketEnd, family: Family) -> u32 {
    match (end, family) {
        (PacketEnd::Source, Family::V4) => 12,
        (PacketEnd::Destination, Family::V4) => 16,
        (PacketEnd::Source, Family::V6) => 8,
        (PacketEnd::Destination, Family::V6) => 24,
    }
}

/// The destination port follows the source port, in every transport protocol that we know.
pub const PORT: Instruction = Instruction::Payload { header: Header::Transport, offset: 2, length: 2 };

/// The source address of a frame.
pub const ETHER_SOURCE: Instruction = Instruction::Payload { header: Header::Link, offset: 6, length: 6 };

/// `ARPHRD_ETHER` of `linux/if_arp.h`.
pub const ETHERNET: [u8; 2] = 1_u16.to_ne_bytes();

/// `RTN_LOCAL` of `linux/rtnetlink.h`.
pub const LOCAL: [u8; 4] = 2_u32.to_ne_bytes();

/// `NF_CT_STATE_BIT` of an established connection and of one that is related to another.
pub const ESTABLISHED_RELATED: [u8; 4] = 6_u32.to_ne_bytes();

/// `IPS_DST_NAT` of `linux/netfilter/nf_conntrack_common.h`.
pub const DESTINATION_TRANSLATED: [u8; 4] = 0x20_u32.to_ne_bytes();

/// The length of an interface name in the kernel: `IFNAMSIZ`.
pub const NAME_LENGTH: usize = 16;

/// The instructions of a rule; `None` when it holds words that only `nft` understands.
pub fn compile(table: TableFamily, expressions: &[Expression]) -> Option<Vec<Instruction>> {
    let mut rule = Compiler { table, instructions: Vec::new() };
    for expression in expressions {
        match expression {
            Expression::Address(end, is, cidr) => rule.address(*end, *is, *cidr),
            Expression::LocalDestination => {
                rule.extend([Instruction::DestinationType, Instruction::Compare(Equality::Equal, LOCAL.to_vec())]);
            }
            Expression::Port(proto, port) => {
                rule.require_transport(*proto);
                rule.extend([PORT, Instruction::Compare(Equality::Equal, port.to_be_bytes().to_vec())]);
            }
            Expression::Interface(direction, is, name) => rule.interface(*direction, *is, name),
            Expression::EtherSource(mac) => {
                rule.require_ethernet();
                rule.extend([ETHER_SOURCE, Instruction::Compare(Equality::Equal, mac.bytes().to_vec())]);
            }
            Expression::EstablishedRelated => {
                let none = Instruction::Compare(Equality::Other, vec![0; 4]);
                rule.extend([Instruction::ConnectionState, Instruction::Mask(ESTABLISHED_RELATED.to_vec()), none]);
            }
            Expression::DestinationTranslated => {
                let none = Instruction::Compare(Equality::Other, vec![0; 4]);
                rule.extend([Instruction::ConnectionStatus, Instruction::Mask(DESTINATION_TRANSLATED.to_vec()), none]);
            }
            Expression::InSet(end, family, set) => rule.in_set(*end, *family, set),
            Expression::Verdict(verdict) => rule.extend([Instruction::Verdict(verdict.clone())]),
            Expression::Masquerade => rule.extend([Instruction::Masquerade]),
            Expression::Dnat(address, port) => rule.dnat(*address, *port),
            Expression::Raw(_) => return None,
        }
    }
    Some(rule.instructions)
}

struct Compiler {
    table: TableFamily,
    instructions: Vec<Instruction>,
}

impl Compiler {
    fn extend(&mut self, instructions: impl IntoIterator<Item = Instruction>) {
        self.instructions.extend(instructions);
    }

    /// Adds a condition on which the next ones depend, once.
    fn require(&mut self, fact: Meta, value: Vec<u8>) {
        let condition = [Instruction::Meta(fact), Instruction::Compare(Equality::Equal, value)];
        if !self.instructions.windows(2).any(|pair| *pair == condition) {
            self.extend(condition);
        }
    }

    fn require_family(&mut self, family: Family) {
        match self.table {
            TableFamily::Ip | TableFamily::Ip6 => {}
            TableFamily::Inet => self.require(Meta::Family, vec![family_number(family)]),
            TableFamily::Bridge => self.require(Meta::Protocol, ether_type(family).to_vec()),
        }
    }

    fn require_transport(&mut self, proto: Proto) {
        self.require(Meta::Transport, vec![transport_number(proto)]);
    }

    fn require_ethernet(&mut self) {
        match self.table {
            TableFamily::Bridge => {}
            TableFamily::Ip | TableFamily::Ip6 | TableFamily::Inet => self.require(Meta::InType, ETHERNET.to_vec()),
        }
    }

    fn address(&mut self, end: PacketEnd, is: Equality, cidr: Cidr) {
        self.require_family(cidr.family());
        self.extend(compare_network(end, is, cidr));
    }

    fn interface(&mut self, direction: Direction, is: Equality, name: &IfName) {
        let fact = match direction {
            Direction::In => Meta::InName,
            Direction::Out => Meta::OutName,
        };
        let mut bytes = name.as_str().as_bytes().to_vec();
        bytes.resize(NAME_LENGTH, 0);
        self.extend([Instruction::Meta(fact), Instruction::Compare(is, bytes)]);
    }

    fn in_set(&mut self, end: PacketEnd, family: Family, set: &NftName) {
        self.require_family(family);
        let (offset, length) = (address_offset(end, family), u32::from(family.bits() / 8));
        let load = Instruction::Payload { header: Header::Network, offset, length };
        self.extend([load, Instruction::InSet(set.clone())]);
    }

    fn dnat(&mut self, address: IpAddr, port: Option<u16>) {
        self.extend([Instruction::Load { register: 1, data: octets(address) }]);
        if let Some(port) = port {
            self.extend([Instruction::Load { register: 2, data: port.to_be_bytes().to_vec() }]);
        }
        let family = family_number(Family::of(address)).into();
        self.extend([Instruction::Dnat { family, port: port.is_some() }]);
    }
}

/// Compares an address of a packet of the network's family. A prefix of whole bytes is compared as such; of
/// another the rest is masked.
pub fn compare_network(end: PacketEnd, is: Equality, cidr: Cidr) -> Vec<Instruction> {
    let bytes = octets(cidr.network().address());
    let (whole, rest) = (usize::from(cidr.prefix() / 8), cidr.prefix() % 8);
    let length = if rest == 0 && whole > 0 { whole } else { bytes.len() };
    let offset = address_offset(end, cidr.family());
    let wide = u32::try_from(length).unwrap_or(u32::MAX);
    let mut instructions = vec![Instruction::Payload { header: Header::Network, offset, length: wide }];
    if usize::from(cidr.prefix()) != length * 8 {
        instructions.push(Instruction::Mask(mask(cidr.prefix(), length)));
    }
    instructions.push(Instruction::Compare(is, bytes[..length].to_vec()));
    instructions
}

/// The bytes of an address, as in a packet.
pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// A mask of `length` bytes whose first `prefix` bits are set.
pub fn mask(prefix: u8, length: usize) -> Vec<u8> {
    let bits = usize::from(prefix);
    let byte = |at: usize| match bits.saturating_sub(at * 8) {
        0 => 0,
        set @ 1..8 => !(0xff_u8 >> set),
        _ => 0xff,
    };
    (0..length).map(byte).collect()
}
