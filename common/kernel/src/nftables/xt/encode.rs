//! Encodes a rule of iptables as the expressions that iptables-nft writes for it.
//!
//! The expressions are those of iptables 1.8.9, except ports and marks. These are written as extensions of x_tables,
//! which all releases read; 1.8.7 misreads the newer form.

use cni_core::family::Family;
use cni_core::names::{ChainName, IfName};
use cni_netfilter::iptables::{IptablesRule, Match, Target};
use cni_netfilter::nftables::{Direction, Equality, NftName, PacketEnd, Verdict};

use super::extension::Extension;
use super::part::RulePart;
use crate::nftables::compile::{compare_network, transport_number};
use crate::nftables::instruction::{Instruction, Meta};

/// The expressions of a rule; `None` for one that is left to iptables.
pub fn encode(family: Family, rule: &IptablesRule) -> Option<Vec<RulePart>> {
    let matches = &rule.matches;
    if matches.iter().enumerate().any(|(at, one)| matches[..at].iter().any(|other| is_same_option(one, other))) {
        return None;
    }
    let mut parts = Vec::new();
    for one in matches {
        if let Match::Interface(direction, is, name) = one {
            let meta = if *direction == Direction::In { Meta::InName } else { Meta::OutName };
            parts.extend([Instruction::Meta(meta), Instruction::Compare(*is, link_name(name))].map(RulePart::Plain));
        }
    }
    if let Some(proto) = rule.protocol() {
        let compare = Instruction::Compare(Equality::Equal, vec![transport_number(proto)]);
        parts.extend([Instruction::Meta(Meta::Transport), compare].map(RulePart::Plain));
    }
    for end in [PacketEnd::Source, PacketEnd::Destination] {
        for one in matches {
            if let Match::Address(at, is, cidr) = one
                && *at == end
            {
                let compare = Some(*cidr).filter(|cidr| cidr.family() == family)?;
                parts.extend(compare_network(end, *is, compare).into_iter().map(RulePart::Plain));
            }
        }
    }
    for one in matches {
        if !matches!(one, Match::Interface(..) | Match::Protocol(_) | Match::Address(..)) {
            parts.push(RulePart::Match(Extension::of_match(one)?));
        }
    }
    parts.push(RulePart::Counter);
    match verdict(&rule.target)? {
        Some(verdict) => parts.push(RulePart::Plain(Instruction::Verdict(verdict))),
        None => parts.push(RulePart::Target(Extension::of_target(family, &rule.target)?)),
    }
    Some(parts)
}

/// Whether both belong to an option of the rule itself, which iptables accepts once.
fn is_same_option(one: &Match, other: &Match) -> bool {
    match (one, other) {
        (Match::Interface(one, ..), Match::Interface(other, ..)) => one == other,
        (Match::Address(one, ..), Match::Address(other, ..)) => one == other,
        _ => false,
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
