//! What the firewall plugin wants of the packet filter: the rules of the reference, in its order.
//!
//! Each address of a container may send, and gets the answers; the chain of the administrator is asked
//! before. Where firewalld keeps the filter, the addresses become sources of a zone instead, and where
//! nf_tables do, elements of a set (`nftables.rs`). An ingress policy adds two chains that say which
//! bridges may reach each other. The rules for an address carry no name, so a claim, written down first,
//! says whose they are.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::names::{Attachment, ChainName, Comment, IfName};
use cni_core::result::CniResult;
use cni_netfilter::Ruleset;
use cni_netfilter::firewalld::Zone;
use cni_netfilter::iptables::{
    IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable, Match, Place, SharedRule, Target,
};
use cni_plugin::keeper::Keeper;
use cni_plugin::plan::{Plan, Step};

use crate::config::{Config, ConfigError, FORWARD_CHAIN, IngressPolicy, STAGE_1, STAGE_2};
use crate::keepers::Held;
use crate::nftables;

/// The chains of an ingress policy.
const STAGES: [&str; 2] = [STAGE_1, STAGE_2];

/// The chain of the table that all forwarded packets pass.
const FORWARD: &str = "FORWARD";

const RULES: &str = "CNI firewall plugin rules";
const ADMIN_OVERRIDES: &str = "CNI firewall plugin admin overrides";
const ANY_POLICY: &str = "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)";

/// A `prevResult` without a bridge, which an ingress policy is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BridgeError {
    /// It names no interface.
    #[error(
        "interface needs to be set for ingress policy {policy:?}, make sure to chain \"firewall\" plugin with \"bridge\""
    )]
    NoInterface {
        /// `ingressPolicy`.
        policy: &'static str,
    },
    /// Its first interface has no name.
    #[error("got empty bridge name")]
    EmptyName,
    /// Its first interface has a name that no interface can have.
    #[error("got invalid bridge name {name:?}")]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: cni_core::names::NameError,
    },
    /// Its first interface has a name that a rule of iptables cannot mean alone.
    #[error("bridge name {name:?} is a pattern to iptables")]
    Pattern {
        /// The name.
        name: String,
    },
}

impl Failure for BridgeError {
    fn code(&self) -> Code {
        match self {
            Self::NoInterface { .. } | Self::EmptyName | Self::InvalidName { .. } | Self::Pattern { .. } => {
                Code::InvalidConfig
            }
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoInterface { .. } | Self::EmptyName => String::new(),
            Self::InvalidName { source, .. } => source.to_string(),
            Self::Pattern { .. } => "a + at the end of a name stands for any ending: use backend nftables".to_owned(),
        }
    }
}

/// The addresses of a result, IPv4 first, each once. The interface that they are on does not matter.
pub fn addresses(result: &CniResult) -> Vec<IpAddr> {
    sorted(result.ips.iter().map(|ip| ip.address.address()))
}

/// Addresses by family, IPv4 first, each once.
pub fn sorted(addresses: impl IntoIterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut unique: Vec<IpAddr> = Vec::new();
    for address in addresses {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    unique.sort_by_key(|address| Family::of(*address));
    unique
}

/// Why there can be no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is a policy, and no bridge that it could be about.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// The rules are in nf_tables, and the administrator's chain cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Failure for PlanError {
    fn code(&self) -> Code {
        match self {
            Self::Bridge(source) => source.code(),
            Self::Config(source) => source.code(),
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Bridge(source) => source.details(),
            Self::Config(source) => source.details(),
        }
    }
}

/// ADD: claims the addresses, then makes the sources of a zone, and the rules of each family in use.
///
/// # Errors
/// As [`wanted`].
pub fn add(config: &Config, keeper: &Keeper, owner: &Attachment, prev_result: &CniResult) -> Result<Plan, PlanError> {
    let addresses = addresses(prev_result);
    let wanted = wanted(config, keeper, &addresses, prev_result)?;
    Ok(let_through(keeper, owner, addresses, wanted))
}

/// Claims some addresses, then makes the sources of a zone, and the rules that they need.
pub fn let_through(keeper: &Keeper, owner: &Attachment, addresses: Vec<IpAddr>, wanted: Vec<Ruleset>) -> Plan {
    let mut plan = Plan::default();
    for address in &addresses {
        plan.owned(Step::ClaimAddress { address: *address, owner: owner.clone(), keeper: keeper.clone() });
    }
    if let Keeper::Firewalld(zone) = keeper {
        addresses.into_iter().for_each(|address| plan.owned(Step::AddSource { zone: zone.clone(), address }));
    }
    wanted.into_iter().for_each(|ruleset| plan.owned(Step::ensure_rules(ruleset)));
    plan
}

/// The rules that some addresses need. A policy beside firewalld is one of iptables.
///
/// # Errors
/// When there is a policy and no bridge that it could be about, or an administrator's chain that the keeper
/// cannot have.
pub fn wanted(
    config: &Config,
    keeper: &Keeper,
    addresses: &[IpAddr],
    prev_result: &CniResult,
) -> Result<Vec<Ruleset>, PlanError> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let barrier = Barrier::choose(config.policy, prev_result)?;
    match (keeper, &barrier) {
        (Keeper::Iptables | Keeper::Firewalld(_), Some(barrier)) if barrier.bridge.as_str().ends_with('+') => {
            return Err(BridgeError::Pattern { name: barrier.bridge.to_string() }.into());
        }
        (Keeper::Iptables | Keeper::Nftables | Keeper::Firewalld(_), _) => {}
    }
    let families = by_family(addresses);
    Ok(match keeper {
        Keeper::Iptables => families
            .map(|(family, addresses)| Ruleset::Iptables(ensure(config, barrier.as_ref(), family, &addresses)))
            .collect(),
        Keeper::Nftables => {
            let admin = config.admin_chain_of_nftables()?;
            vec![Ruleset::Nftables(nftables::ensure(admin, barrier.as_ref(), addresses))]
        }
        Keeper::Firewalld(_) => families
            .filter_map(|(family, _)| Some(Ruleset::Iptables(policy_alone(barrier.as_ref()?, family))))
            .collect(),
    })
}

/// DEL and GC: removes what addresses have. Those of a family that iptables keeps have a plan of their own,
/// those that nf_tables keep have one, and so has each of the others, so that one that fails does not keep
/// the others. An address is released once its rules are gone.
pub fn remove(held: &[Held]) -> Vec<Plan> {
    let kept_by = |held: &Held, keeper: &Keeper| held.keepers == [keeper.clone()];
    let (plain, others): (Vec<&Held>, Vec<&Held>) = held.iter().partition(|held| kept_by(held, &Keeper::Iptables));
    let (native, others): (Vec<&Held>, Vec<&Held>) =
        others.into_iter().partition(|held| kept_by(held, &Keeper::Nftables));
    let of = |family| plain.iter().copied().filter(move |held| Family::of(held.address) == family).collect();
    let groups = Family::ALL.into_iter().map(of).chain([native]).filter(|some: &Vec<&Held>| !some.is_empty());
    groups.chain(others.into_iter().map(|held| vec![held])).map(|held| removal(&held)).collect()
}

/// Removes what some addresses have: all of them of one family, or none of them in iptables.
fn removal(held: &[&Held]) -> Plan {
    let mut plan = Plan::default();
    for (zone, address) in held.iter().flat_map(|held| sources(held)) {
        plan.owned(Step::RemoveSource { zone: zone.clone(), address });
    }
    let kept_by = |keeper: &Keeper| -> Vec<IpAddr> {
        held.iter().filter(|held| held.keepers.contains(keeper)).map(|held| held.address).collect()
    };
    let in_nftables = kept_by(&Keeper::Nftables);
    if !in_nftables.is_empty() {
        plan.owned(Step::remove_rules(nftables::remove(&in_nftables)));
    }
    let in_tables = kept_by(&Keeper::Iptables);
    if let Some(family) = in_tables.first().copied().map(Family::of) {
        let rules = in_tables.into_iter().flat_map(address_rules).collect();
        plan.owned(Step::remove_rules(IptablesRemoval {
            family,
            table: IptablesTable::Filter,
            chains: Vec::new(),
            rules,
        }));
    }
    for Held { address, owner, keepers: _ } in held {
        plan.owned(Step::ReleaseAddress { address: *address, owner: owner.clone() });
    }
    plan
}

fn sources(held: &Held) -> impl Iterator<Item = (&Zone, IpAddr)> {
    held.keepers.iter().filter_map(|keeper| match keeper {
        Keeper::Firewalld(zone) => Some((zone, held.address)),
        Keeper::Iptables | Keeper::Nftables => None,
    })
}

fn by_family(addresses: &[IpAddr]) -> impl Iterator<Item = (Family, Vec<IpAddr>)> {
    let of = |family| addresses.iter().copied().filter(|address| Family::of(*address) == family).collect();
    Family::ALL.into_iter().map(move |family| (family, of(family))).filter(|(_, some): &(_, Vec<_>)| !some.is_empty())
}

fn ensure(config: &Config, barrier: Option<&Barrier>, family: Family, addresses: &[IpAddr]) -> IptablesRuleset {
    let admin = &config.admin_chain;
    let mut shared_chains = vec![ChainName::fixed(FORWARD_CHAIN), admin.clone()];
    let mut shared = vec![
        first(rule(FORWARD, comment(RULES), jump(FORWARD_CHAIN))),
        first(rule(FORWARD_CHAIN, comment(ADMIN_OVERRIDES), Target::Jump(admin.clone()))),
    ];
    if let Some(barrier) = barrier {
        shared_chains.extend(STAGES.map(ChainName::fixed));
        shared.extend(barrier.rules());
    }
    let rules = addresses.iter().flat_map(|address| address_rules(*address)).collect();
    IptablesRuleset { family, table: IptablesTable::Filter, shared_chains, shared, chain: None, rules }
}

fn policy_alone(barrier: &Barrier, family: Family) -> IptablesRuleset {
    let shared_chains = STAGES.map(ChainName::fixed).to_vec();
    IptablesRuleset {
        family,
        table: IptablesTable::Filter,
        shared_chains,
        shared: barrier.rules(),
        chain: None,
        rules: Vec::new(),
    }
}

/// The rules of one address without anything that it shares.
pub fn address_alone(address: IpAddr) -> Ruleset {
    let rules = address_rules(address).to_vec();
    let (family, table) = (Family::of(address), IptablesTable::Filter);
    IptablesRuleset { family, table, shared_chains: Vec::new(), shared: Vec::new(), chain: None, rules }.into()
}

/// What an address gets and what it may send.
fn address_rules(address: IpAddr) -> [IptablesRule; 2] {
    let cidr = Cidr::host(address);
    [
        rule(FORWARD_CHAIN, vec![Match::Destination(cidr), Match::RelatedEstablished], Target::Accept),
        rule(FORWARD_CHAIN, vec![Match::Source(cidr)], Target::Accept),
    ]
}

/// An ingress policy and the bridge that it is about.
pub struct Barrier {
    /// The policy, which is not to let everything pass.
    pub policy: IngressPolicy,
    /// The bridge.
    pub bridge: IfName,
}

impl Barrier {
    /// The bridge is the first interface of the result, as the bridge plugin writes it.
    fn choose(policy: IngressPolicy, prev_result: &CniResult) -> Result<Option<Self>, BridgeError> {
        if policy == IngressPolicy::Open {
            return Ok(None);
        }
        let interface = prev_result.interfaces.first();
        let name = &interface.ok_or(BridgeError::NoInterface { policy: policy.as_str() })?.name;
        if name.is_empty() {
            return Err(BridgeError::EmptyName);
        }
        match IfName::parse(name) {
            Ok(bridge) => Ok(Some(Self { policy, bridge })),
            Err(source) => Err(BridgeError::InvalidName { name: name.clone(), source }),
        }
    }

    /// A packet from this bridge to elsewhere goes to the second stage, which stops it where the other
    /// side has a policy as well. The order is that of the work: what goes first ends up above.
    fn rules(&self) -> Vec<SharedRule> {
        let (input, output) = (Match::In(self.bridge.clone()), Match::Out(self.bridge.clone()));
        let elsewhere = Match::NotOut(self.bridge.clone());
        let this_policy =
            || Match::Comment(Comment::new(&format!("{RULES} (ingressPolicy: {})", self.policy.as_str())));
        let any_policy = || Match::Comment(Comment::new(ANY_POLICY));
        let mut rules = vec![
            first(rule(FORWARD, vec![any_policy()], jump(STAGE_1))),
            first(rule(STAGE_1, vec![input.clone(), elsewhere, this_policy()], jump(STAGE_2))),
        ];
        if self.policy == IngressPolicy::Isolated {
            rules.push(first(rule(STAGE_1, vec![input, output.clone(), this_policy()], Target::Drop)));
        }
        rules.push(last(rule(STAGE_1, vec![any_policy()], Target::Return)));
        rules.push(first(rule(STAGE_2, vec![output, any_policy()], Target::Drop)));
        rules.push(last(rule(STAGE_2, vec![any_policy()], Target::Return)));
        rules
    }
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
    SharedRule { rule, place: Place::First }
}

fn last(rule: IptablesRule) -> SharedRule {
    SharedRule { rule, place: Place::Last }
}

#[cfg(test)]
mod tests;
