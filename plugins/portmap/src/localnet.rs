//! What keeps loopback addresses the host's own where `route_localnet` is set.
//!
//! That switch lets the host route from 127.0.0.1 to a container, and with it a neighbour on the link to
//! reach what listens on 127.0.0.1 alone. No packet that comes in by a wire has such an address for a
//! good reason: answers to the host's own packets carry the host's address there until connection
//! tracking, which comes later, gives them the old one back. So they are dropped before. The table is of
//! its own, since the tables of iptables are to be the reference's to the letter.

use cni_core::family::Family;
use cni_core::names::IfName;
use cni_netfilter::nftables::{
    ChainId, Content, Direction, End, Expression, Hook, Is, Kind, NftChain, NftComment, NftRule, NftRuleset, NftTable,
    TableFamily, TableId, Verdict, WantedChain,
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
    let rules = [End::Destination, End::Source].map(|end| drop_foreign(&chain, end)).to_vec();
    let prerouting = NftChain::base(chain, Kind::Filter, Hook::Prerouting, PRIORITY);
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: Some(NftComment::cut(COMMENT)) }],
        chains: vec![WantedChain { chain: prerouting, content: Content::Fixed(rules) }],
        ..NftRuleset::default()
    }
}

fn drop_foreign(chain: &ChainId, end: End) -> NftRule {
    let expressions = vec![
        Expression::Interface(Direction::In, Is::Other, IfName::lo()),
        Expression::Address(end, Is::Equal, FAMILY.loopback_network()),
        Expression::Verdict(Verdict::Drop),
    ];
    NftRule::new(chain.clone(), expressions)
}
