//! From a rule of iptables to the expressions that iptables-nft writes for it.
//!
//! Those of 1.8.9, except ports and marks, which are written as extensions of x_tables: all releases read these, and
//! 1.8.7 misreads the newer form.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::{ChainName, IfName};
use cni_netfilter::iptables::{IptablesRule, Match, Target};
use cni_netfilter::nftables::{End, Is, NftName, Verdict};

use super::extension::Extension;
use super::part::Part;
use crate::nftables::compile::{compare_network, transport_number};
use crate::nftables::instruction::{Instruction, Meta};

/// What a match becomes, by its place among the expressions.
enum PartPlace<'a> {
    /// First: a link.
    Link(Meta, Is, &'a IfName),
    /// Behind the links: the protocol, once for the whole rule.
    Protocol,
    /// Behind the protocol: an address.
    Address(End, Is, Cidr),
    /// Last, in the order of the rule.
    Extension(Extension),
}

impl PartPlace<'_> {
    /// Whether both are of one option of the rule itself, which iptables takes once.
    fn is_same_option(&self, other: &Self) -> bool {
        match (self, other) {
            (PartPlace::Link(one, ..), PartPlace::Link(other, ..)) => one == other,
            (PartPlace::Address(one, ..), PartPlace::Address(other, ..)) => one == other,
            (PartPlace::Link(..) | PartPlace::Protocol | PartPlace::Address(..) | PartPlace::Extension(_), _) => false,
        }
    }
}

/// The expressions of a rule; `None` for one that is left to iptables.
pub fn encode(family: Family, rule: &IptablesRule) -> Option<Vec<Part>> {
    let places: Vec<PartPlace<'_>> = rule.matches.iter().map(|part| place(family, part)).collect::<Option<_>>()?;
    if places.iter().enumerate().any(|(at, one)| places[..at].iter().any(|other| other.is_same_option(one))) {
        return None;
    }
    let mut parts = Vec::new();
    for one in &places {
        if let PartPlace::Link(meta, is, name) = one {
            parts.extend([Instruction::Meta(*meta), Instruction::Compare(*is, link_name(name))].map(Part::Plain));
        }
    }
    if let Some(proto) = rule.protocol() {
        let compare = Instruction::Compare(Is::Equal, vec![transport_number(proto)]);
        parts.extend([Instruction::Meta(Meta::Transport), compare].map(Part::Plain));
    }
    for end in [End::Source, End::Destination] {
        for one in &places {
            if let PartPlace::Address(at, is, cidr) = one
                && *at == end
            {
                parts.extend(compare_network(end, *is, *cidr).into_iter().map(Part::Plain));
            }
        }
    }
    let extensions =
        places.into_iter().filter_map(|one| if let PartPlace::Extension(part) = one { Some(part) } else { None });
    parts.extend(extensions.map(Part::Match));
    parts.push(Part::Counter);
    match verdict(&rule.target)? {
        Some(verdict) => parts.push(Part::Plain(Instruction::Verdict(verdict))),
        None => parts.push(Part::Target(Extension::of_target(family, &rule.target)?)),
    }
    Some(parts)
}

/// Where a match goes; `None` for one that is left to iptables.
fn place(family: Family, part: &Match) -> Option<PartPlace<'_>> {
    let address = |end, is, cidr: Cidr| (cidr.family() == family).then_some(PartPlace::Address(end, is, cidr));
    match part {
        Match::In(name) => Some(PartPlace::Link(Meta::InName, Is::Equal, name)),
        Match::NotIn(name) => Some(PartPlace::Link(Meta::InName, Is::Other, name)),
        Match::Out(name) => Some(PartPlace::Link(Meta::OutName, Is::Equal, name)),
        Match::NotOut(name) => Some(PartPlace::Link(Meta::OutName, Is::Other, name)),
        Match::Source(cidr) => address(End::Source, Is::Equal, *cidr),
        Match::NotSource(cidr) => address(End::Source, Is::Other, *cidr),
        Match::Destination(cidr) => address(End::Destination, Is::Equal, *cidr),
        Match::NotDestination(cidr) => address(End::Destination, Is::Other, *cidr),
        Match::Protocol(_) => Some(PartPlace::Protocol),
        Match::LocalDestination
        | Match::Port(..)
        | Match::PortRange(..)
        | Match::Ports(..)
        | Match::Mark(_)
        | Match::User(_)
        | Match::RelatedEstablished
        | Match::Comment(_)
        | Match::Raw(_) => Extension::of_match(part).map(PartPlace::Extension),
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
