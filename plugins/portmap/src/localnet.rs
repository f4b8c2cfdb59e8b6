//! Protects the host's loopback addresses where `route_localnet` is set.
//!
//! With this parameter the host routes from 127.0.0.1 to a container, but it also lets a neighbour on the link reach
//! services that listen on 127.0.0.1 only. No legitimate packet from outside has a loopback address: answers to the
//! host's own packets carry the host's address until connection tracking, which comes later, restores the loopback
//! address. So such packets are dropped first. They are dropped in a separate table, since the tables of iptables must
//! be exactly the reference's.

use cni_core::family::Family;
use cni_core::names::IfName;
use cni_netfilter::nftables::{
    BaseChainType, ChainContent, ChainId, Direction, Equality, Expression, Hook, NftChain, NftComment, NftRule,
    NftRuleset, NftTable, PacketEnd, TableFamily, TableId, Verdict, WantedChain,
};

/// The family that has the switch for routing to and from loopback addresses; IPv6 never does it.
pub const FAMILY: Family = Family::V4;

const COMMENT: &str = "Drops packets with loopback addresses that come in by a link, where portmap sets route_localnet";

/// Before connection tracking, at -200: `NF_IP_PRI_RAW` of `linux/netfilter_ipv4.h`.
const PRIORITY: i32 = -300;

fn table() -> TableId {
    TableId::fixed(TableFamily::Inet, "cni_plugins_localnet")
}

/// The guard, which all containers share.
pub fn guard() -> NftRuleset {
    let chain = table().chain("prerouting");
    let rules = [PacketEnd::Destination, PacketEnd::Source].map(|end| drop_foreign(&chain, end)).to_vec();
    let prerouting = NftChain::base(chain, BaseChainType::Filter, Hook::Prerouting, PRIORITY);
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: Some(NftComment::cut(COMMENT)) }],
        chains: vec![WantedChain { chain: prerouting, content: ChainContent::Fixed(rules) }],
        ..NftRuleset::default()
    }
}

fn drop_foreign(chain: &ChainId, end: PacketEnd) -> NftRule {
    let expressions = vec![
        Expression::Interface(Direction::In, Equality::Other, IfName::lo()),
        Expression::Address(end, Equality::Equal, FAMILY.loopback_network()),
        Expression::Verdict(Verdict::Drop),
    ];
    NftRule::new(chain.clone(), expressions)
}
