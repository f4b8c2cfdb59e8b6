//! The rules of iptables: those of the reference, in its order.
//!
//! Packets from each address of a container are accepted, and answers to them; the administrator's chain comes first.
//! An ingress policy adds two chains that say which bridges may reach each other.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::{ChainName, Comment};
use cni_netfilter::RulePosition;
use cni_netfilter::iptables::{
    IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable, Match, RulePlacement, SharedRule, Target,
};
use cni_netfilter::nftables::{Direction, Equality};

use crate::config::{FORWARD_CHAIN, STAGE_1, STAGE_2};
use crate::policy::{IngressPolicy, PolicyBridge};

/// The chains of an ingress policy.
const STAGES: [&str; 2] = [STAGE_1, STAGE_2];

/// The chain of the table that all forwarded packets pass.
const FORWARD: &str = "FORWARD";

const RULES: &str = "CNI firewall plugin rules";
const ADMIN_OVERRIDES: &str = "CNI firewall plugin admin overrides";
const ANY_POLICY: &str = "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)";

/// The rules that some addresses of a family need. `admin` is the chain of the administrator.
pub fn ensure(
    admin: &ChainName,
    barrier: Option<&PolicyBridge>,
    family: Family,
    addresses: &[IpAddr],
) -> IptablesRuleset {
    let mut shared_chains = vec![ChainName::fixed(FORWARD_CHAIN), admin.clone()];
    let mut shared = vec![
        SharedRule { rule: to_rules(), place: RulePlacement::Below(to_stages()) },
        first(rule(FORWARD_CHAIN, comment(ADMIN_OVERRIDES), Target::Jump(admin.clone()))),
    ];
    if let Some(barrier) = barrier {
        shared_chains.extend(STAGES.map(ChainName::fixed));
        shared.extend(stages(barrier));
    }
    let rules = addresses.iter().flat_map(|address| address_rules(*address)).collect();
    IptablesRuleset {
        family,
        table: IptablesTable::Filter,
        shared_chains,
        shared,
        chains: Vec::new(),
        rules,
        position: RulePosition::Back,
    }
}

/// The rules of a policy, without those of addresses.
pub fn policy_alone(barrier: &PolicyBridge, family: Family) -> IptablesRuleset {
    let shared_chains = STAGES.map(ChainName::fixed).to_vec();
    IptablesRuleset {
        family,
        table: IptablesTable::Filter,
        shared_chains,
        shared: stages(barrier),
        chains: Vec::new(),
        rules: Vec::new(),
        position: RulePosition::Back,
    }
}

/// The rules of one address without anything that it shares.
pub fn address_alone(address: IpAddr) -> IptablesRuleset {
    let rules = address_rules(address).to_vec();
    let (family, table) = (Family::of(address), IptablesTable::Filter);
    IptablesRuleset {
        family,
        table,
        shared_chains: Vec::new(),
        shared: Vec::new(),
        chains: Vec::new(),
        rules,
        position: RulePosition::Back,
    }
}

/// The rules that accept packets to and from an address.
fn address_rules(address: IpAddr) -> [IptablesRule; 2] {
    let cidr = Cidr::host(address);
    [
        rule(FORWARD_CHAIN, vec![Match::destination(cidr), Match::RelatedEstablished], Target::Accept),
        rule(FORWARD_CHAIN, vec![Match::source(cidr)], Target::Accept),
    ]
}

/// Removes the rules of some addresses of a family.
pub fn remove(family: Family, addresses: Vec<IpAddr>) -> IptablesRemoval {
    let rules = addresses.into_iter().flat_map(address_rules).collect();
    IptablesRemoval { family, table: IptablesTable::Filter, chains: Vec::new(), rules }
}

/// The rules of the two stages. A packet from this bridge to elsewhere goes to the second stage, which drops it if the
/// other bridge has a policy too. The rules are added in this order, and one that is added earlier ends up above.
fn stages(PolicyBridge { policy, bridge }: &PolicyBridge) -> Vec<SharedRule> {
    let by = |direction, is| Match::Interface(direction, is, bridge.clone());
    let (input, output) = (by(Direction::In, Equality::Equal), by(Direction::Out, Equality::Equal));
    let elsewhere = by(Direction::Out, Equality::Other);
    let this_policy = || Match::Comment(Comment::new(&format!("{RULES} (ingressPolicy: {})", policy.as_str())));
    let mut rules = vec![
        SharedRule { rule: to_stages(), place: RulePlacement::Above(to_rules()) },
        first(rule(STAGE_1, vec![input.clone(), elsewhere, this_policy()], jump(STAGE_2))),
    ];
    if *policy == IngressPolicy::Isolated {
        rules.push(first(rule(STAGE_1, vec![input, output.clone(), this_policy()], Target::Drop)));
    }
    rules.push(last(rule(STAGE_1, vec![any_policy()], Target::Return)));
    rules.push(first(rule(STAGE_2, vec![output, any_policy()], Target::Drop)));
    rules.push(last(rule(STAGE_2, vec![any_policy()], Target::Return)));
    rules
}

fn any_policy() -> Match {
    Match::Comment(Comment::new(ANY_POLICY))
}

/// Leads to the rules that let the packets of containers pass.
fn to_rules() -> IptablesRule {
    rule(FORWARD, comment(RULES), jump(FORWARD_CHAIN))
}

/// The jump to the stages. It must precede the jump to the rules that accept packets: an accepted packet is not
/// examined further.
fn to_stages() -> IptablesRule {
    rule(FORWARD, vec![any_policy()], jump(STAGE_1))
}

fn rule(chain: &'static str, matches: Vec<Match>, target: Target) -> IptablesRule {
    IptablesRule::new(ChainName::fixed(chain), matches, target)
}

fn jump(chain: &'static str) -> Target {
    Target::Jump(ChainName::fixed(chain))
}

fn comment(text: &str) -> Vec<Match> {
    vec![Match::Comment(Comment::new(text))]
}

fn first(rule: IptablesRule) -> SharedRule {
    SharedRule { rule, place: RulePlacement::First }
}

fn last(rule: IptablesRule) -> SharedRule {
    SharedRule { rule, place: RulePlacement::Last }
}
