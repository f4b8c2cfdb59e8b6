//! Masquerade by iptables: a chain for each container in each network, named by the reference's hash, and a jump to it
//! for each address.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::{Attachment, ChainName};
use cni_netfilter::RulePosition;
use cni_netfilter::iptables::{
    ExistingChain, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable, JumpRemoval, Match, OwnedChain,
    OwnedChainRef, Target,
};
use cni_netfilter::nftables::{Equality, PacketEnd};

/// The chain that contains the jumps to the containers' masquerade.
pub fn postrouting() -> ChainName {
    ChainName::fixed("POSTROUTING")
}

/// The rules that give packets to other networks the host's address, one change for each family in use.
pub fn ensure(at: &Attachment, addresses: &[Cidr]) -> Vec<IptablesRuleset> {
    let comment = || Match::Comment(at.comment());
    let chain = at.masquerade_chain();
    let in_chain = |matched, target| IptablesRule { chain: chain.clone(), matches: vec![matched, comment()], target };
    let of_family = |family| {
        let own: Vec<Cidr> = addresses.iter().copied().filter(|cidr| cidr.family() == family).collect();
        let mut rules: Vec<IptablesRule> =
            own.iter().map(|cidr| in_chain(Match::destination(cidr.network()), Target::Accept)).collect();
        rules.dedup();
        rules.push(in_chain(
            Match::Address(PacketEnd::Destination, Equality::Other, family.multicast()),
            Target::Masquerade,
        ));
        Some(IptablesRuleset {
            family,
            table: IptablesTable::Nat,
            shared_chains: Vec::new(),
            shared: Vec::new(),
            chains: vec![OwnedChain { name: chain.clone(), rules, existing: ExistingChain::Merge }],
            rules: own.iter().map(|cidr| jump(at, cidr.address())).collect(),
            position: RulePosition::Back,
        })
        .filter(|_| !own.is_empty())
    };
    Family::ALL.into_iter().filter_map(of_family).collect()
}

fn jump(at: &Attachment, address: IpAddr) -> IptablesRule {
    IptablesRule {
        chain: postrouting(),
        matches: vec![Match::source(Cidr::host(address)), Match::Comment(at.comment())],
        target: Target::Jump(at.masquerade_chain()),
    }
}

/// Removes the masquerade of one family: the chain of (network, container) with every jump to it, except for
/// those of addresses that another interface of the container still has.
pub fn remove(at: &Attachment, family: Family, own: &[IpAddr], kept: &[IpAddr]) -> IptablesRemoval {
    let of_family = |addresses: &[IpAddr]| -> Vec<IpAddr> {
        addresses.iter().copied().filter(|address| Family::of(*address) == family).collect()
    };
    IptablesRemoval {
        family,
        table: IptablesTable::Nat,
        chains: vec![OwnedChainRef {
            name: at.masquerade_chain(),
            parents: vec![postrouting()],
            jumps: JumpRemoval::AllBut(of_family(kept)),
        }],
        rules: of_family(own).into_iter().map(|address| jump(at, address)).collect(),
    }
}

/// Removes only the jumps of these addresses, and the chain once nothing jumps to it.
pub fn remove_listed(at: &Attachment, family: Family, own: &[IpAddr]) -> IptablesRemoval {
    let mut removal = remove(at, family, own, &[]);
    removal.chains.iter_mut().for_each(|chain| chain.jumps = JumpRemoval::Listed);
    removal
}

/// The families of some addresses.
pub fn families_of(addresses: &[IpAddr]) -> impl Iterator<Item = Family> {
    Family::ALL.into_iter().filter(|family| addresses.iter().any(|address| Family::of(*address) == *family))
}
