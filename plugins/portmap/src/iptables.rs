//! `backend: "iptables"`: the rules of the reference, in its order.
//!
//! Packets to a mapped port of one of the host's addresses enter the container's chain. It translates the destination
//! to the container's address, and marks packets whose source must become the host's address. Everything can be found
//! by the names of the network and the container.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{Attachment, ChainName, Comment, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_model::plan::Ns;
use cni_netfilter::RulePosition;
use cni_netfilter::flows::{PortChange, StaleFlows};
use cni_netfilter::iptables::{
    ExistingChain, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable, JumpRemoval, Mark, Match, OwnedChain,
    OwnedChainRef, PortSet, RulePlacement, SharedRule, Target, stale,
};
use cni_netfilter::{Proto, RuleRemoval, unless_absent};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::config::{Config, ListenAddress, Mapping, Marker, Sources};
use crate::register::ChainRegister;
use crate::{flows, localnet};

/// The chain that leads to every container's own.
const DNAT: &str = "CNI-HOSTPORT-DNAT";
/// The chain that marks what is to be masqueraded.
const SETMARK: &str = "CNI-HOSTPORT-SETMARK";
/// The chain that masquerades what is marked.
const MASQ: &str = "CNI-HOSTPORT-MASQ";
/// The chain of old releases of the reference with the source translation of all containers.
const OLD_SNAT: &str = "CNI-HOSTPORT-SNAT";

/// Everything that a container needs in the family of its address.
pub fn ensure(
    config: &Config,
    at: &Attachment,
    name: &ChainName,
    target: Cidr,
    position: RulePosition,
) -> IptablesRuleset {
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
        shared.push(SharedRule { rule: to_host, place: RulePlacement::Last });
    }
    let rules = container_rules(config, name, target);
    let chain = OwnedChain { rules, name: name.clone(), existing: ExistingChain::Replace };
    let rules = entries(config, at, name, family);
    IptablesRuleset { family, table: IptablesTable::Nat, shared_chains, shared, chains: vec![chain], rules, position }
}

/// The rules of the masquerade. The jump precedes the masquerade rules of other plugins, which would match the packets
/// first.
fn masquerade_rules(mark: Mark) -> [SharedRule; 3] {
    let rule = |chain, matches, target| IptablesRule::new(ChainName::fixed(chain), matches, target);
    let comment = |text| vec![Match::Comment(Comment::new(text))];
    let set = rule(SETMARK, comment("CNI portfwd masquerade mark"), Target::SetMark(mark));
    let masquerade = rule(MASQ, vec![Match::Mark(mark)], Target::Masquerade);
    let enter = rule("POSTROUTING", comment("CNI portfwd requiring masquerade"), jump(MASQ));
    [
        SharedRule { rule: set, place: RulePlacement::Last },
        SharedRule { rule: masquerade, place: RulePlacement::Last },
        SharedRule { rule: enter, place: RulePlacement::First },
    ]
}

fn jump(chain: &'static str) -> Target {
    Target::Jump(ChainName::fixed(chain))
}

/// The rules of the container's chain, each once.
fn container_rules(config: &Config, chain: &ChainName, target: Cidr) -> Vec<IptablesRule> {
    let mappings = config.mappings.iter().filter(|mapping| mapping.applies_to(target.family()));
    let mut seen = HashSet::new();
    let rules = mappings.flat_map(|mapping| mapping_rules(config, chain, target, mapping));
    rules.filter(|rule| seen.insert(rule.clone())).collect()
}

/// A neighbour in the container's network must not answer to the host's clients by itself, so its packets
/// are masqueraded like the container's own.
fn mapping_rules(config: &Config, chain: &ChainName, target: Cidr, mapping: &Mapping) -> Vec<IptablesRule> {
    let listen = match mapping.listen {
        ListenAddress::Address(address) => Some(Match::destination(Cidr::host(address))),
        ListenAddress::Anywhere | ListenAddress::Family(_) => None,
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
        rules.extend(sources.into_iter().map(|source| rule(source.map(Match::source), Target::Jump(mark.clone()))));
    }
    let to = SocketAddr::new(target.address(), mapping.container_port);
    rules.push(rule(None, Target::Dnat(to)));
    rules
}

/// The rules that jump to the container's chain, one for each protocol and fifteen ports. As in the reference, they
/// include ports that listen on an address of the other family.
fn entries(config: &Config, at: &Attachment, chain: &ChainName, family: Family) -> Vec<IptablesRule> {
    if !config.maps(family) {
        return Vec::new();
    }
    let mut ports: BTreeMap<(&str, Proto), Vec<u16>> = BTreeMap::new();
    for Mapping { proto, host_port, .. } in &config.mappings {
        ports.entry((proto.as_str(), *proto)).or_default().push(*host_port);
    }
    let mut rules = Vec::new();
    for ((_, proto), ports) in ports {
        rules.extend(
            PortSet::chunks(&ports).into_iter().map(|set| entry(config, at, chain, family, Match::Ports(proto, set))),
        );
    }
    rules
}

fn entry(config: &Config, at: &Attachment, chain: &ChainName, family: Family, ports: Match) -> IptablesRule {
    let mut matches = vec![Match::Comment(at.dnat_comment()), ports];
    let conditions = config.conditions(family);
    if !conditions.is_empty() {
        matches.push(Match::Raw(conditions.to_vec()));
    }
    IptablesRule::new(ChainName::fixed(DNAT), matches, Target::Jump(chain.clone()))
}

/// Removes the chains that a container may have, and the rules that jump to them. `expected` are the rules that are
/// believed to jump to them.
fn removal(family: Family, at: &Attachment, name: &ChainName, expected: Vec<IptablesRule>) -> IptablesRemoval {
    let chain = |name, parent| OwnedChainRef { name, parents: vec![ChainName::fixed(parent)], jumps: JumpRemoval::All };
    let old = (*name == at.dnat_chain()).then(|| chain(at.snat_chain(), OLD_SNAT));
    let chains = [chain(name.clone(), DNAT)].into_iter().chain(old).collect();
    IptablesRemoval { family, table: IptablesTable::Nat, chains, rules: expected }
}

/// DEL in both families, or in those of the addresses.
pub fn del(host: &mut dyn Host, at: &Attachment, config: Option<&Config>, targets: &[Cidr]) -> Result<(), Error> {
    let chain = ChainRegister::observe(at, host.ledger()).chain();
    let mut removal = Removal::new(host);
    for family in Family::ALL {
        let target = targets.iter().find(|target| target.family() == family);
        if target.is_none() && !targets.is_empty() {
            continue;
        }
        let entries = config.map(|config| entries(config, at, &chain, family)).unwrap_or_default();
        let flows =
            target.zip(config).and_then(|(target, config)| flows::of_mappings(PortChange::Unmapped, config, *target));
        let address = target.map(|target| target.address());
        removal.attempt(|host| remove(host, family, at, &chain, ExpectedRules { entries, flows, address }));
    }
    removal.finish()
}

/// The rules that a container is believed to have.
struct ExpectedRules {
    /// The rules that jump to its chain.
    entries: Vec<IptablesRule>,
    /// The connections that the rules have led to it.
    flows: Option<StaleFlows>,
    /// The destination of its rules, if it is known.
    address: Option<IpAddr>,
}

/// Removes a container's chains. The rules that jump to them, expected or listed, prove in one batch that nothing is
/// left. Most containers have no chain, so without expectations the chain is looked up first.
fn remove(
    host: &mut dyn Host,
    family: Family,
    at: &Attachment,
    chain: &ChainName,
    expected: ExpectedRules,
) -> Result<(), Error> {
    let ExpectedRules { mut entries, flows, address } = expected;
    let known = !entries.is_empty() && address.is_some();
    let mut flows: Vec<StaleFlows> = flows.into_iter().collect();
    if !known {
        match list(host, family, chain)? {
            None if entries.is_empty() => return Ok(()),
            None => {}
            // The chain is named for the container, and this one is of another of its interfaces.
            Some(rules) if address.is_some_and(|address| leads_elsewhere(&rules, address)) => return Ok(()),
            Some(rules) => flows = flows::of_rules(&rules),
        }
    }
    if entries.is_empty() {
        entries = observe_entries(host, family, chain)?;
    }
    let unwanted = RuleRemoval::from(removal(family, at, chain, entries));
    flows::remove_with_flows(host, if known { unwanted.known() } else { unwanted }, flows)
}

/// The rules of a chain; `None` if it does not exist.
fn list(host: &mut dyn Host, family: Family, chain: &ChainName) -> Result<Option<Vec<IptablesRule>>, Error> {
    let listed = host.netfilter(Ns::Host)?.iptables().list(family, IptablesTable::Nat, chain);
    Ok(unless_absent(listed)?.flatten())
}

/// The addresses to which a container's rules lead, in both families.
pub fn targets(at: &Attachment, host: &mut dyn Host) -> Result<BTreeSet<IpAddr>, Error> {
    let (chain, mut found) = (ChainRegister::observe(at, host.ledger()).chain(), BTreeSet::new());
    for family in Family::ALL {
        found.extend(translations(&list(host, family, &chain)?.unwrap_or_default()));
    }
    Ok(found)
}

/// Where the rules of a chain lead.
fn translations(rules: &[IptablesRule]) -> impl Iterator<Item = IpAddr> {
    rules.iter().filter_map(|rule| if let Target::Dnat(to) = &rule.target { Some(to.ip()) } else { None })
}

/// Whether there are translations, and all of them lead to other addresses.
fn leads_elsewhere(rules: &[IptablesRule], address: IpAddr) -> bool {
    let mut targets = translations(rules);
    targets.next().is_some_and(|first| first != address && targets.all(|other| other != address))
}

fn observe_entries(host: &mut dyn Host, family: Family, chain: &ChainName) -> Result<Vec<IptablesRule>, Error> {
    let rules = list(host, family, &ChainName::fixed(DNAT))?.unwrap_or_default();
    Ok(rules.into_iter().filter(|rule| rule.jumps_to(chain)).collect())
}

/// The places of the first rules that lead to some attachments, in order, for those that have any.
pub fn places<const N: usize>(
    family: Family,
    attachments: [&Attachment; N],
    host: &mut dyn Host,
) -> Result<[Option<usize>; N], Error> {
    let rules = list(host, family, &ChainName::fixed(DNAT))?.unwrap_or_default();
    Ok(attachments.map(|at| {
        let chain = ChainRegister::observe(at, host.ledger()).chain();
        rules.iter().position(|rule| rule.jumps_to(&chain))
    }))
}

/// GC in both families: removes the chains of containers that are not valid, if rules of this network jump to them.
pub fn gc(host: &mut dyn Host, network: &NetworkName, valid: &ValidAttachments) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    for family in Family::ALL {
        removal.attempt(|host| remove_stale(host, family, network, valid));
    }
    removal.finish()
}

fn remove_stale(
    host: &mut dyn Host,
    family: Family,
    network: &NetworkName,
    valid: &ValidAttachments,
) -> Result<(), Error> {
    let entries = list(host, family, &ChainName::fixed(DNAT))?.unwrap_or_default();
    let Some(unwanted) = stale(family, IptablesTable::Nat, entries, network, valid) else { return Ok(()) };
    let flows = observe_flows(host, &unwanted)?;
    flows::remove_with_flows(host, unwanted.into(), flows)
}

/// Reads the chains to which UDP ports lead.
fn observe_flows(host: &mut dyn Host, unwanted: &IptablesRemoval) -> Result<Vec<StaleFlows>, Error> {
    let is_udp = |part: &Match| matches!(part, Match::Ports(Proto::Udp, _));
    let entries = unwanted.rules.iter().filter(|rule| rule.matches.iter().any(is_udp));
    let chains: BTreeSet<&ChainName> = entries
        .flat_map(|rule| unwanted.chains.iter().map(|chain| &chain.name).filter(|chain| rule.jumps_to(chain)))
        .collect();
    let mut flows = Vec::new();
    for chain in chains {
        flows.extend(flows::of_rules(&list(host, unwanted.family, chain)?.unwrap_or_default()));
    }
    Ok(flows)
}

#[cfg(test)]
mod tests;
