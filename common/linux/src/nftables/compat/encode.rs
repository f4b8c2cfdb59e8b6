//! From a rule of iptables to the expressions that iptables-nft writes for it.
//!
//! Those of 1.8.9, but for ports and marks, which go as extensions of x_tables: all releases read these, and
//! 1.8.7 misreads the newer form.

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::firewall::{Match, Proto, Rule, Target};
use cni_core::names::{ChainName, IfName};
use cni_core::nftables::{End, Is, Name, Verdict};

use super::super::compile::{address_offset, mask, octets, transport_number};
use super::super::instruction::{Header, Instruction, Meta};
use super::extension::Extension;
use super::part::Part;

/// The expressions of a rule; `None` for one that is left to iptables.
pub(super) fn encode(family: Family, rule: &Rule) -> Option<Vec<Part>> {
    if rule.matches.iter().filter_map(cidr).any(|cidr| cidr.family() != family) {
        return None;
    }
    let mut parts = Vec::new();
    for one in &rule.matches {
        parts.extend(interface(one).into_iter().flatten());
    }
    if let Some(proto) = protocol(rule) {
        let compare = Instruction::Compare(Is::Equal, vec![transport_number(proto)]);
        parts.extend([Instruction::Meta(Meta::Transport), compare].map(Part::Plain));
    }
    for end in [End::Source, End::Destination] {
        rule.matches.iter().for_each(|one| parts.extend(address(family, end, one)));
    }
    for one in &rule.matches {
        match Extension::of_match(one) {
            Some(extension) => parts.push(Part::Match(extension)),
            None if is_header(one) => {}
            None => return None,
        }
    }
    parts.push(Part::Counter);
    match verdict(&rule.target)? {
        Some(verdict) => parts.push(Part::Plain(Instruction::Verdict(verdict))),
        None => parts.push(Part::Target(Extension::of_target(family, &rule.target)?)),
    }
    Some(parts)
}

/// The number of the transport protocol that a rule is for; zero for any.
pub(super) fn protocol_number(rule: &Rule) -> u32 {
    protocol(rule).map_or(0, |proto| u32::from(transport_number(proto)))
}

fn protocol(rule: &Rule) -> Option<Proto> {
    rule.matches
        .iter()
        .find_map(|one| if let Match::Port(proto, _) | Match::Ports(proto, _) = one { Some(*proto) } else { None })
}

/// Whether a match stands before the extensions.
const fn is_header(part: &Match) -> bool {
    match part {
        Match::Source(_)
        | Match::NotSource(_)
        | Match::Destination(_)
        | Match::NotDestination(_)
        | Match::In(_)
        | Match::NotIn(_)
        | Match::Out(_)
        | Match::NotOut(_) => true,
        Match::LocalDestination
        | Match::Port(..)
        | Match::Ports(..)
        | Match::Mark(_)
        | Match::RelatedEstablished
        | Match::Comment(_)
        | Match::Raw(_) => false,
    }
}

/// The network that a match is about.
const fn cidr(part: &Match) -> Option<Cidr> {
    match part {
        Match::Source(cidr) | Match::NotSource(cidr) | Match::Destination(cidr) | Match::NotDestination(cidr) => {
            Some(*cidr)
        }
        Match::In(_)
        | Match::NotIn(_)
        | Match::Out(_)
        | Match::NotOut(_)
        | Match::LocalDestination
        | Match::Port(..)
        | Match::Ports(..)
        | Match::Mark(_)
        | Match::RelatedEstablished
        | Match::Comment(_)
        | Match::Raw(_) => None,
    }
}

/// What a packet is compared with has its end mark; without one, any ending would do.
fn interface(part: &Match) -> Option<[Part; 2]> {
    let (meta, is, name) = match part {
        Match::In(name) => (Meta::InName, Is::Equal, name),
        Match::NotIn(name) => (Meta::InName, Is::Other, name),
        Match::Out(name) => (Meta::OutName, Is::Equal, name),
        Match::NotOut(name) => (Meta::OutName, Is::Other, name),
        Match::Source(_)
        | Match::NotSource(_)
        | Match::Destination(_)
        | Match::NotDestination(_)
        | Match::LocalDestination
        | Match::Port(..)
        | Match::Ports(..)
        | Match::Mark(_)
        | Match::RelatedEstablished
        | Match::Comment(_)
        | Match::Raw(_) => return None,
    };
    Some([Instruction::Meta(meta), Instruction::Compare(is, link_name(name))].map(Part::Plain))
}

fn link_name(name: &IfName) -> Vec<u8> {
    match name.as_str().strip_suffix('+') {
        Some(start) if !start.is_empty() => start.as_bytes().to_vec(),
        Some(_) | None => [name.as_str().as_bytes(), &[0]].concat(),
    }
}

fn address(family: Family, end: End, part: &Match) -> Vec<Part> {
    let (is, cidr) = match (end, part) {
        (End::Source, Match::Source(cidr)) | (End::Destination, Match::Destination(cidr)) if cidr.prefix() > 0 => {
            (Is::Equal, *cidr)
        }
        (End::Source, Match::NotSource(cidr)) | (End::Destination, Match::NotDestination(cidr)) => (Is::Other, *cidr),
        _ => return Vec::new(),
    };
    network(family, end, is, cidr).into_iter().map(Part::Plain).collect()
}

/// A prefix of whole bytes is compared as such; of another the rest is masked.
fn network(family: Family, end: End, is: Is, cidr: Cidr) -> Vec<Instruction> {
    let bytes = octets(cidr.network().address());
    let (whole, rest) = (usize::from(cidr.prefix() / 8), cidr.prefix() % 8);
    let length = if rest == 0 && whole > 0 { whole } else { bytes.len() };
    let wide = u32::try_from(length).unwrap_or(u32::MAX);
    let mut parts =
        vec![Instruction::Payload { header: Header::Network, offset: address_offset(end, family), length: wide }];
    if usize::from(cidr.prefix()) != length * 8 {
        parts.push(Instruction::Mask(mask(cidr.prefix(), length)));
    }
    parts.push(Instruction::Compare(is, bytes[..length].to_vec()));
    parts
}

/// The verdict that a target is: `Some(None)` when it is an extension, `None` when it is left to iptables.
fn verdict(target: &Target) -> Option<Option<Verdict>> {
    let name = |chain: &ChainName| Name::parse(chain.as_str()).ok();
    match target {
        Target::Accept => Some(Some(Verdict::Accept)),
        Target::Drop => Some(Some(Verdict::Drop)),
        Target::Return => Some(Some(Verdict::Return)),
        Target::Jump(chain) => name(chain).map(Verdict::Jump).map(Some),
        Target::Masquerade | Target::Dnat(_) | Target::SetMark(_) => Some(None),
        Target::Raw(_) => None,
    }
}
