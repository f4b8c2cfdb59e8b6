//! Encodes a rule of iptables as the expressions that iptables-nft writes for it.
//!
//! The expressions are those of iptables 1.8.9, except ports and marks. These are written as extensions of x_tables,
//! which all releases read; 1.8.7 misreads the newer form.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::{ChainName, IfName};
use cni_netfilter::iptables::{IptablesRule, Match, Target};
use cni_netfilter::nftables::{Equality, NftName, PacketEnd, Verdict};

use super::extension::Extension;
use super::part::RulePart;
use crate::nftables::compile::{compare_network, transport_number};
use crate::nftables::instruction::{Instruction, Meta};

/// The encoding of a match, by its position among the expressions.
enum MatchPart<'a> {
    /// First: a link.
    Link(Meta, Equality, &'a IfName),
    /// Behind the links: the protocol, once for the whole rule.
    Protocol,
    /// Behind the protocol: an address.
    Address(PacketEnd, Equality, Cidr),
    /// Last, in the order of the rule.
    Extension(Extension),
}

impl MatchPart<'_> {
    /// Whether both belong to an option of the rule itself, which iptables accepts once.
    fn is_same_option(&self, other: &Self) -> bool {
        match (self, other) {
            (MatchPart::Link(one, ..), MatchPart::Link(other, ..)) => one == other,
            (MatchPart::Address(one, ..), MatchPart::Address(other, ..)) => one == other,
            (MatchPart::Link(..) | MatchPart::Protocol | MatchPart::Address(..) | MatchPart::Extension(_), _) => false,
        }
    }
}

/// The expressions of a rule; `None` for one that is left to iptables.
pub fn encode(family: Family, rule: &IptablesRule) -> Option<Vec<RulePart>> {
    let places: Vec<MatchPart<'_>> = rule.matches.iter().map(|part| place(family, part)).collect::<Option<_>>()?;
    if places.iter().enumerate().any(|(at, one)| places[..at].iter().any(|other| other.is_same_option(one))) {
        return None;
    }
    let mut parts = Vec::new();
    for one in &places {
        if let MatchPart::Link(meta, is, name) = one {
            parts.extend([Instruction::Meta(*meta), Instruction::Compare(*is, link_name(name))].map(RulePart::Plain));
        }
    }
    if let Some(proto) = rule.protocol() {
        let compare = Instruction::Compare(Equality::Equal, vec![transport_number(proto)]);
        parts.extend([Instruction::Meta(Meta::Transport), compare].map(RulePart::Plain));
    }
    for end in [PacketEnd::Source, PacketEnd::Destination] {
        for one in &places {
            if let MatchPart::Address(at, is, cidr) = one
                && *at == end
            {
                parts.extend(compare_network(end, *is, *cidr).into_iter().map(RulePart::Plain));
            }
        }
    }
    let extensions =
        places.into_iter().filter_map(|one| if let MatchPart::Extension(part) = one { Some(part) } else { None });
    parts.extend(extensions.map(RulePart::Match));
    parts.push(RulePart::Counter);
    match verdict(&rule.target)? {
        Some(verdict) => parts.push(RulePart::Plain(Instruction::Verdict(verdict))),
        None => parts.push(RulePart::Target(Extension::of_target(family, &rule.target)?)),
    }
    Some(parts)
}

/// The encoding of a match; `None` for one that is left to the programs of iptables.
fn place(family: Family, part: &Match) -> Option<MatchPart<'_>> {
    let address = |end, is, cidr: Cidr| (cidr.family() == family).then_some(MatchPart::Address(end, is, cidr));
    match part {
        Match::In(name) => Some(MatchPart::Link(Meta::InName, Equality::Equal, name)),
        Match::NotIn(name) => Some(MatchPart::Link(Meta::InName, Equality::Other, name)),
        Match::Out(name) => Some(MatchPart::Link(Meta::OutName, Equality::Equal, name)),
        Match::NotOut(name) => Some(MatchPart::Link(Meta::OutName, Equality::Other, name)),
        Match::Source(cidr) => address(PacketEnd::Source, Equality::Equal, *cidr),
        Match::NotSource(cidr) => address(PacketEnd::Source, Equality::Other, *cidr),
        Match::Destination(cidr) => address(PacketEnd::Destination, Equality::Equal, *cidr),
        Match::NotDestination(cidr) => address(PacketEnd::Destination, Equality::Other, *cidr),
        Match::Protocol(_) => Some(MatchPart::Protocol),
        Match::LocalDestination
        | Match::Port(..)
        | Match::PortRange(..)
        | Match::Ports(..)
        | Match::Mark(_)
        | Match::User(_)
        | Match::RelatedEstablished
        | Match::Comment(_)
        | Match::Raw(_) => Extension::of_match(part).map(MatchPart::Extension),
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
