//! What the portmap plugin wants of the packet filter: the rules of the reference, in its order.
//!
//! Packets to one of the host's own addresses and a mapped port enter the container's chain, which gives
//! them the container's address, and marks those that need the host's address as their source. All of it
//! can be found again from the names of the network and the container.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::names::{Attachment, ChainName, Comment, IfName};
use cni_core::result::CniResult;
use cni_netfilter::Proto;
use cni_netfilter::flows::PortChange;
use cni_netfilter::iptables::{
    ExistingChain, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable, Jumps, Mark, Match, OwnedChain,
    OwnedChainRef, Place, PortSet, SharedRule, Target,
};
use cni_plugin::plan::{Need, Ns, Plan, Step, Sysctl};

use cni_netfilter::Backend;

use crate::config::{Config, Listen, Mapping, Marker, Sources};
use crate::{flows, localnet, nftables};

/// The chain that leads to every container's own.
pub const DNAT: &str = "CNI-HOSTPORT-DNAT";
/// The chain that marks what is to be masqueraded.
const SETMARK: &str = "CNI-HOSTPORT-SETMARK";
/// The chain that masquerades what is marked.
const MASQ: &str = "CNI-HOSTPORT-MASQ";
/// The chain that led to every container's source translation in old releases of the reference.
const OLD_SNAT: &str = "CNI-HOSTPORT-SNAT";

/// The container's addresses that ports lead to: the first of each family, IPv4 first.
pub fn targets(result: &CniResult, ifname: &IfName) -> Vec<Cidr> {
    let first = |family| result.ips_of(ifname.as_str()).map(|ip| ip.address).find(|cidr| cidr.family() == family);
    Family::ALL.into_iter().filter_map(first).collect()
}

/// The address for which the host must route from its loopback, if there is one.
pub fn localnet_target(config: &Config, targets: &[Cidr]) -> Option<IpAddr> {
    let target =
        targets.iter().find(|target| target.family() == localnet::FAMILY && is_mapped(config, localnet::FAMILY))?;
    config.masquerade.as_ref().map(|_| target.address())
}

/// ADD: what leads to the container in each family. `link` is the host's link to the container, if loopback
/// is to be routed on it.
pub fn add(config: &Config, at: &Attachment, targets: &[Cidr], link: Option<&IfName>) -> Plan {
    let mut plan = Plan::default();
    for target in mapped(config, targets) {
        let family = target.family();
        lead(&mut plan, config, at, target, PortChange::Mapped);
        if let Some(name) = link.filter(|_| family == localnet::FAMILY) {
            let key = Sysctl::interface(family, name, "route_localnet");
            plan.shared(Step::SetSysctl { ns: Ns::Host, key, value: "1".to_owned(), need: Need::Required });
        }
    }
    plan
}

/// The rules that lead to one of the container's addresses, and an end of the connections that lead elsewhere.
pub fn lead(plan: &mut Plan, config: &Config, at: &Attachment, target: Cidr, change: PortChange) {
    match config.backend {
        Backend::Iptables => plan.owned(Step::ensure_rules(ensure(config, at, target))),
        Backend::Nftables => {
            if config.masquerade.is_none() {
                plan.within(Step::remove_rules(nftables::unmasquerade(at, target.family())));
            }
            plan.owned(Step::ensure_rules(nftables::ensure(config, at, target)));
        }
    }
    if let Some(stale) = flows::of_mappings(change, config, target) {
        plan.shared(Step::ForgetFlows(stale));
    }
}

/// The addresses to which at least one mapping leads.
pub fn mapped(config: &Config, targets: &[Cidr]) -> impl Iterator<Item = Cidr> {
    targets.iter().copied().filter(|target| is_mapped(config, target.family()))
}

/// DEL: removes the chains that a container may have, and what leads to them. `expected` are the rules that
/// are believed to lead to them.
pub fn del(family: Family, at: &Attachment, expected: Vec<IptablesRule>) -> Step {
    let chain = |name, parent| OwnedChainRef { name, parents: vec![ChainName::fixed(parent)], jumps: Jumps::All };
    let chains = vec![chain(at.dnat_chain(), DNAT), chain(at.snat_chain(), OLD_SNAT)];
    Step::remove_rules(IptablesRemoval { family, table: IptablesTable::Nat, chains, rules: expected })
}

/// The rules that lead to the container's chain, one for each protocol and each fifteen ports. As in the
/// reference, ports that listen on the other family's address are among them.
pub fn entries(config: &Config, at: &Attachment, family: Family) -> Vec<IptablesRule> {
    if !is_mapped(config, family) {
        return Vec::new();
    }
    let mut ports: BTreeMap<(&str, Proto), Vec<u16>> = BTreeMap::new();
    for Mapping { proto, host_port, .. } in &config.mappings {
        ports.entry((proto.as_str(), *proto)).or_default().push(*host_port);
    }
    let mut rules = Vec::new();
    for ((_, proto), ports) in ports {
        rules
            .extend(PortSet::chunks(&ports).into_iter().map(|set| entry(config, at, family, Match::Ports(proto, set))));
    }
    rules
}

fn entry(config: &Config, at: &Attachment, family: Family, ports: Match) -> IptablesRule {
    let mut matches = vec![Match::Comment(at.dnat_comment()), ports];
    let conditions = config.conditions(family);
    if !conditions.is_empty() {
        matches.push(Match::Raw(conditions.to_vec()));
    }
    IptablesRule::new(ChainName::fixed(DNAT), matches, Target::Jump(at.dnat_chain()))
}

fn is_mapped(config: &Config, family: Family) -> bool {
    config.mappings.iter().any(|mapping| mapping.applies_to(family))
}

/// The rules of iptables that a container needs in the family of its address.
pub fn ensure(config: &Config, at: &Attachment, target: Cidr) -> IptablesRuleset {
    let family = target.family();
    let mut shared_chains = Vec::new();
    let mut shared = Vec::new();
    if let Some(Marker::Own(mark)) = config.masquerade.as_ref().map(|masquerade| &masquerade.marker) {
        shared_chains.extend([SETMARK, MASQ].map(ChainName::fixed));
        shared.extend(masquerade_rules(*mark));
    }
    shared_chains.push(ChainName::fixed(DNAT));
    for chain in ["PREROUTING", "OUTPUT"] {
        let to_host = IptablesRule::new(ChainName::fixed(chain), vec![Match::LocalDestination], jump(DNAT));
        shared.push(SharedRule { rule: to_host, place: Place::Last });
    }
    let name = at.dnat_chain();
    let chain = OwnedChain { rules: container_rules(config, &name, target), name, existing: ExistingChain::Replace };
    let rules = entries(config, at, family);
    IptablesRuleset { family, table: IptablesTable::Nat, shared_chains, shared, chain: Some(chain), rules }
}

/// The jump goes before the masquerade rules of other plugins, which would take the packets first.
fn masquerade_rules(mark: Mark) -> [SharedRule; 3] {
    let rule = |chain, matches, target| IptablesRule::new(ChainName::fixed(chain), matches, target);
    let comment = |text| vec![Match::Comment(Comment::new(text))];
    let set = rule(SETMARK, comment("CNI portfwd masquerade mark"), Target::SetMark(mark));
    let masquerade = rule(MASQ, vec![Match::Mark(mark)], Target::Masquerade);
    let enter = rule("POSTROUTING", comment("CNI portfwd requiring masquerade"), jump(MASQ));
    [
        SharedRule { rule: set, place: Place::Last },
        SharedRule { rule: masquerade, place: Place::Last },
        SharedRule { rule: enter, place: Place::First },
    ]
}

fn jump(chain: &'static str) -> Target {
    Target::Jump(ChainName::fixed(chain))
}

/// The rules of the container's chain, each once.
fn container_rules(config: &Config, chain: &ChainName, target: Cidr) -> Vec<IptablesRule> {
    let mut rules: Vec<IptablesRule> = Vec::new();
    for mapping in config.mappings.iter().filter(|mapping| mapping.applies_to(target.family())) {
        for rule in mapping_rules(config, chain, target, mapping) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    rules
}

/// A neighbour in the container's network must not answer to the host's clients by itself, so its packets
/// are masqueraded like the container's own.
fn mapping_rules(config: &Config, chain: &ChainName, target: Cidr, mapping: &Mapping) -> Vec<IptablesRule> {
    let listen = match mapping.listen {
        Listen::Address(address) => Some(Match::Destination(Cidr::host(address))),
        Listen::Anywhere | Listen::Family(_) => None,
    };
    let rule = |source: Option<Match>, action| {
        let port = Match::Port(mapping.proto, mapping.host_port);
        IptablesRule::new(chain.clone(), source.into_iter().chain(listen.clone()).chain([port]).collect(), action)
    };
    let mut rules = Vec::new();
    if let Some(masquerade) = &config.masquerade {
        let mark = match &masquerade.marker {
            Marker::Own(_) => ChainName::fixed(SETMARK),
            Marker::External(external) => external.clone(),
        };
        let sources = match masquerade.sources {
            Sources::All => vec![None],
            Sources::Local if target.family() == localnet::FAMILY => {
                vec![Some(target.network()), Some(Cidr::host(target.family().loopback()))]
            }
            Sources::Local => vec![Some(target.network())],
        };
        rules.extend(sources.into_iter().map(|source| rule(source.map(Match::Source), Target::Jump(mark.clone()))));
    }
    let to = SocketAddr::new(target.address(), mapping.container_port);
    rules.push(rule(None, Target::Dnat(to)));
    rules
}

#[cfg(test)]
mod tests;
