//! Which packets are marked: conditions on a packet as it is before any rule has changed it.

use std::net::IpAddr;

use cni_core::family::Family;
use cni_netfilter::nftables::Equality;
use netlink_packet_netfilter::nftables::{ExpressionAttribute, ListAttribute};

use crate::nftables::instruction::{Header, Instruction, Meta, be32, expression};

/// `NFT_META_NFTRACE`.
const NFTRACE: u32 = 12;
/// The room of a link's name.
const NAME_ROOM: usize = libc::IFNAMSIZ;

/// The conditions of a packet that is marked; those that are `None` hold for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The name of the link by which it comes.
    pub input: Option<String>,
    pub source: Option<IpAddr>,
    pub destination: Option<IpAddr>,
    /// `IPPROTO_*`. Ports need one.
    pub protocol: Option<u8>,
    pub source_port: Option<u16>,
    pub destination_port: Option<u16>,
}

impl Mark {
    /// The expressions of the rule that marks such packets.
    pub fn expressions(&self) -> Vec<ListAttribute<ExpressionAttribute>> {
        let conditions = self.conditions();
        let mut all: Vec<_> = conditions.iter().map(Instruction::encode).collect();
        all.push(Instruction::Load { register: 1, data: vec![1] }.encode());
        // NFTA_META_KEY and NFTA_META_SREG.
        all.push(("meta", vec![be32(2, NFTRACE), be32(3, 1)]));
        all.into_iter().map(expression).collect()
    }

    fn conditions(&self) -> Vec<Instruction> {
        let Self { input, source, destination, protocol, source_port, destination_port } = self;
        let mut all = Vec::new();
        if let Some(name) = input {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(NAME_ROOM, 0);
            all.extend([Instruction::Meta(Meta::InName), is(bytes)]);
        }
        if let Some(address) = source.or(*destination) {
            all.extend([Instruction::Meta(Meta::Family), is(vec![number(Family::of(address))])]);
        }
        all.extend(source.iter().flat_map(|address| address_is(*address, [12, 8])));
        all.extend(destination.iter().flat_map(|address| address_is(*address, [16, 24])));
        all.extend(protocol.iter().flat_map(|protocol| [Instruction::Meta(Meta::Transport), is(vec![*protocol])]));
        all.extend(source_port.iter().flat_map(|port| port_is(*port, 0)));
        all.extend(destination_port.iter().flat_map(|port| port_is(*port, 2)));
        all
    }
}

/// The expression of a rule that matches every packet and does nothing: it loads a number that nobody reads.
pub fn nothing() -> Vec<ListAttribute<ExpressionAttribute>> {
    vec![expression(Instruction::Load { register: 1, data: vec![1] }.encode())]
}

fn is(bytes: Vec<u8>) -> Instruction {
    Instruction::Compare(Equality::Equal, bytes)
}

/// `NFPROTO_IPV4` and `NFPROTO_IPV6`.
const fn number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// An address of the IP header, at the offset in an IPv4 or an IPv6 one.
fn address_is(address: IpAddr, [v4, v6]: [u32; 2]) -> [Instruction; 2] {
    let (offset, bytes) = match address {
        IpAddr::V4(address) => (v4, address.octets().to_vec()),
        IpAddr::V6(address) => (v6, address.octets().to_vec()),
    };
    let length = u32::from(Family::of(address).bits() / 8);
    [Instruction::Payload { header: Header::Network, offset, length }, is(bytes)]
}

fn port_is(port: u16, offset: u32) -> [Instruction; 2] {
    [Instruction::Payload { header: Header::Transport, offset, length: 2 }, is(port.to_be_bytes().to_vec())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_is_a_load_and_a_comparison() {
        let mark = Mark {
            input: Some("eth0".to_owned()),
            source: Some("192.0.2.1".parse().expect("an address")),
            protocol: Some(6),
            destination_port: Some(80),
            ..Mark::default()
        };
        let mut name = b"eth0".to_vec();
        name.resize(16, 0);
        let want = [
            Instruction::Meta(Meta::InName),
            is(name),
            Instruction::Meta(Meta::Family),
            is(vec![2]),
            Instruction::Payload { header: Header::Network, offset: 12, length: 4 },
            is(vec![192, 0, 2, 1]),
            Instruction::Meta(Meta::Transport),
            is(vec![6]),
            Instruction::Payload { header: Header::Transport, offset: 2, length: 2 },
            is(vec![0, 80]),
        ];
        assert_eq!(mark.conditions(), want);
        assert_eq!(Mark::default().conditions(), []);
    }
}
