//! `backend: "nftables"`: the mappings in the reference's table `cni_hostport`, one table for each family in use.
//!
//! Packets to a local address come through `hostports_all` to `hostports`, where each mapping has a rule whose comment
//! is the container's ID: the reference counts these rules in CHECK and deletes them in DEL. The comment does not
//! distinguish the container's networks, so the rule does not translate addresses itself. It jumps to a chain of the
//! attachment, named after hashes of its network, and of its interface and container:
//! `dnat-<network>-<interface:container>`. By their jump target, rules are replaced in ADD, deleted in DEL, and found
//! in GC. The reference's DEL leaves these chains, but no rule jumps to them then. The reference's rules jump nowhere,
//! and are deleted at the container's first DEL, as in the reference.
//!
//! Conditions are in the attachment's chain, so they apply to no other container; the reference puts them into
//! `prerouting` and `output`, which all containers share. In `masquerading` the whole network of the container is
//! masqueraded, otherwise a neighbour's answers would be bridged past the host. The rules match only translated
//! connections, since bridged packets may pass there as well.

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::{Attachment, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_model::plan::Ns;
use cni_netfilter::RulePosition;
use cni_netfilter::flows::{StaleFlows, UdpPort};
use cni_netfilter::nftables::{
    BaseChainType, ChainContent, ChainId, Equality, ExistingRules, Expression, Hook, ListedRule, NftChain, NftComment,
    NftName, NftRemoval, NftRule, NftRuleset, NftTable, OwnedRules, PacketEnd, RuleSelection, RuleTag, TableId,
    UnwantedNftRules, Verdict, WantedChain,
};
use cni_netfilter::{MissingRule, NetfilterErrorKind, Proto, Ruleset, unless_absent};
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::config::{Config, ListenAddress, Mapping, Sources};
use crate::flows;

const HOSTPORTS: &str = "hostports";
/// Empty since the reference v1.6; its DEL still looks here.
const OLD_HOSTPORTS: &str = "hostip_hostports";
const ALL_HOSTPORTS: &str = "hostports_all";
const PREROUTING: &str = "prerouting";
const OUTPUT: &str = "output";
const MASQUERADING: &str = "masquerading";

/// The beginning of the names of attachments' chains.
const OWN_DNAT: &str = "dnat";
const OWN_MASQUERADE: &str = "masquerade";

fn table(family: Family) -> TableId {
    TableId::fixed(family.into(), "cni_hostport")
}

/// The chain to which the mappings of all containers lead.
fn hostports(family: Family) -> ChainId {
    table(family).chain(HOSTPORTS)
}

fn masquerading(family: Family) -> ChainId {
    table(family).chain(MASQUERADING)
}

fn own(start: &'static str, at: &Attachment) -> NftName {
    NftName::hashed_parts(start, &[at.network.as_str(), &format!("{}:{}", at.ifname, at.container)])
}

fn comment(at: &Attachment) -> NftComment {
    NftComment::cut(at.container.as_str())
}

/// The name of the chain to which the rules of a container lead.
pub fn own_chain(at: &Attachment) -> String {
    own(OWN_DNAT, at).to_string()
}

/// ADD: everything that a container needs in the family of its address.
pub fn ensure(config: &Config, at: &Attachment, target: Cidr, position: RulePosition) -> NftRuleset {
    let family = target.family();
    let (dnat, masquerade) = (own(OWN_DNAT, at), own(OWN_MASQUERADE, at));
    let mappings = mappings(config, family);
    let enter = |chain, mut matches: Vec<Expression>, to: &NftName| {
        matches.push(Expression::Verdict(Verdict::Jump(to.clone())));
        NftRule::new(chain, matches).with_comment(comment(at))
    };
    let entrances = mappings.iter().map(|mapping| enter(hostports(family), matches(mapping), &dnat)).collect();
    let own_dnat = table(family).chain_named(dnat.clone());
    let conditions = words(config.conditions(family));
    let rule = |mapping| {
        let expressions = conditions.iter().cloned().chain(translation(mapping, target)).collect();
        NftRule::new(own_dnat.clone(), expressions)
    };
    let mut want = shared_chains(config, family, &[]);
    want.chains.push(filled(&own_dnat, mappings.iter().map(rule).collect()));
    want.owned.push(owned(hostports(family), dnat.clone(), entrances, position));
    if let Some(how) = &config.masquerade {
        let own = table(family).chain_named(masquerade.clone());
        want.chains.push(filled(&own, vec![NftRule::new(own.clone(), vec![Expression::Masquerade])]));
        let sources = sources(how.sources, target);
        let rules = sources.into_iter().map(|matches| enter(masquerading(family), matches, &masquerade)).collect();
        want.owned.push(owned(masquerading(family), masquerade.clone(), rules, RulePosition::Back));
    }
    want
}

/// ADD without masquerading: removes what an earlier ADD may have masqueraded.
pub fn unmasquerade(at: &Attachment, family: Family) -> NftRemoval {
    let name = own(OWN_MASQUERADE, at);
    let rules = vec![tagged(masquerading(family), RuleTag::LeadsTo(name.clone()))];
    NftRemoval { rules, chains: vec![table(family).chain_named(name)], ..NftRemoval::default() }
}

/// DEL: removes what a container has in a family, made by this plugin or by the reference.
fn remove(at: &Attachment, family: Family) -> NftRemoval {
    let [dnat, masquerade] = [OWN_DNAT, OWN_MASQUERADE].map(|start| own(start, at));
    let references = || RuleTag::LeadsNowhere(comment(at));
    let rules = vec![
        tagged(hostports(family), RuleTag::LeadsTo(dnat.clone())),
        tagged(hostports(family), references()),
        tagged(table(family).chain(OLD_HOSTPORTS), references()),
        tagged(masquerading(family), RuleTag::LeadsTo(masquerade.clone())),
        tagged(masquerading(family), references()),
    ];
    let chains = [dnat, masquerade].map(|name| table(family).chain_named(name)).to_vec();
    NftRemoval { rules, chains, ..NftRemoval::default() }
}

fn tagged(chain: ChainId, tag: RuleTag) -> UnwantedNftRules {
    UnwantedNftRules { chain, which: RuleSelection::Tagged(tag) }
}

fn owned(chain: ChainId, own: NftName, rules: Vec<NftRule>, position: RulePosition) -> OwnedRules {
    OwnedRules { chain, tag: RuleTag::LeadsTo(own), rules, existing: ExistingRules::Replace, position }
}

fn filled(chain: &ChainId, rules: Vec<NftRule>) -> WantedChain {
    WantedChain { chain: NftChain::regular(chain.clone()), content: ChainContent::Own(rules) }
}

/// The chains and rules that all containers share, in the order of the reference. `conditions` apply to all of them.
fn shared_chains(config: &Config, family: Family, conditions: &[String]) -> NftRuleset {
    let regular = |name| NftChain::regular(table(family).chain(name));
    let open = |chain| WantedChain { chain, content: ChainContent::Open };
    let jump = |name| Expression::Verdict(Verdict::Jump(NftName::fixed(name)));
    let all = table(family).chain(ALL_HOSTPORTS);
    let onwards = [OLD_HOSTPORTS, HOSTPORTS].map(|name| NftRule::new(all.clone(), vec![jump(name)]));
    let entrance = |name, hook| {
        let id = table(family).chain(name);
        let local = [Expression::LocalDestination, jump(ALL_HOSTPORTS)];
        let rule = NftRule::new(id.clone(), words(conditions).into_iter().chain(local).collect());
        WantedChain {
            chain: NftChain::base(id, BaseChainType::Nat, hook, -100),
            content: ChainContent::Fixed(vec![rule]),
        }
    };
    let mut chains = vec![
        open(regular(HOSTPORTS)),
        open(regular(OLD_HOSTPORTS)),
        WantedChain { chain: regular(ALL_HOSTPORTS), content: ChainContent::Fixed(onwards.to_vec()) },
        entrance(PREROUTING, Hook::Prerouting),
        entrance(OUTPUT, Hook::Output),
    ];
    if config.masquerade.is_some() {
        chains.push(open(NftChain::base(masquerading(family), BaseChainType::Nat, Hook::Postrouting, 100)));
    }
    let tables = vec![NftTable { id: table(family), comment: Some(NftComment::cut("CNI portmap plugin")) }];
    NftRuleset { tables, chains, ..NftRuleset::default() }
}

fn words(conditions: &[String]) -> Option<Expression> {
    (!conditions.is_empty()).then(|| Expression::Raw(conditions.to_vec()))
}

/// The mappings of a family, each once.
fn mappings(config: &Config, family: Family) -> Vec<Mapping> {
    let mut seen = HashSet::new();
    config.mappings.iter().filter(|mapping| mapping.applies_to(family) && seen.insert(**mapping)).copied().collect()
}

fn matches(mapping: &Mapping) -> Vec<Expression> {
    let listen = match mapping.listen {
        ListenAddress::Address(address) => {
            Some(Expression::Address(PacketEnd::Destination, Equality::Equal, Cidr::host(address)))
        }
        ListenAddress::Anywhere | ListenAddress::Family(_) => None,
    };
    listen.into_iter().chain([Expression::Port(mapping.proto, mapping.host_port)]).collect()
}

fn translation(mapping: &Mapping, target: Cidr) -> Vec<Expression> {
    let to = Expression::Dnat(target.address(), Some(mapping.container_port));
    matches(mapping).into_iter().chain([to]).collect()
}

/// Which connections to the container are masqueraded. Those of the network and the loopback are always
/// among them: the reference's CHECK wants as many rules.
fn sources(sources: Sources, target: Cidr) -> Vec<Vec<Expression>> {
    let family = target.family();
    let from = |cidr| Expression::Address(PacketEnd::Source, Equality::Equal, cidr);
    let to = Expression::Address(PacketEnd::Destination, Equality::Equal, Cidr::host(target.address()));
    let mut rules = vec![vec![from(target.network()), to.clone(), Expression::DestinationTranslated]];
    if family == Family::V4 {
        rules.push(vec![from(Cidr::host(family.loopback())), to.clone()]);
    }
    match sources {
        Sources::Local => {}
        Sources::All => rules.push(vec![to, Expression::DestinationTranslated]),
    }
    rules
}

/// The rules that the reference's ADD makes for a container.
fn references(config: &Config, at: &Attachment, target: Cidr) -> NftRuleset {
    let family = target.family();
    let rule = |chain, expressions| NftRule::new(chain, expressions).with_comment(comment(at));
    let mut want = shared_chains(config, family, config.conditions(family));
    let of = |chain, rules| OwnedRules {
        chain,
        tag: RuleTag::LeadsNowhere(comment(at)),
        rules,
        existing: ExistingRules::Keep,
        position: RulePosition::Back,
    };
    let mappings = mappings(config, family);
    let rules = mappings.iter().map(|mapping| rule(hostports(family), translation(mapping, target))).collect();
    want.owned.push(of(hostports(family), rules));
    if config.masquerade.is_some() {
        let own = Cidr::host(target.address());
        let loopback = (family == Family::V4).then(|| Cidr::host(family.loopback()));
        let masquerade = |from| {
            let from = Expression::Address(PacketEnd::Source, Equality::Equal, from);
            let to = Expression::Address(PacketEnd::Destination, Equality::Equal, own);
            rule(masquerading(family), vec![from, to, Expression::Masquerade])
        };
        let rules = [own].into_iter().chain(loopback).map(masquerade).collect();
        want.owned.push(of(masquerading(family), rules));
    }
    want
}

/// CHECK: the first of our rules that is missing, unless the container has all that the reference makes.
pub fn observe_missing(
    host: &mut dyn Host,
    config: &Config,
    at: &Attachment,
    target: Cidr,
) -> Result<Option<MissingRule>, Error> {
    let netfilter = host.netfilter(Ns::Host)?;
    let Some(missing) = Ruleset::from(ensure(config, at, target, RulePosition::Back)).missing(netfilter)? else {
        return Ok(None);
    };
    let is_references = Ruleset::from(references(config, at, target)).missing(netfilter)?.is_none();
    Ok(Some(missing).filter(|_| !is_references))
}

/// The reference's rules for the container that would match the packets of the same mappings before ours.
pub fn observe_superseded(
    host: &mut dyn Host,
    config: &Config,
    at: &Attachment,
    family: Family,
) -> Result<Option<NftRemoval>, Error> {
    let chain = hostports(family);
    let references = [made_by_reference(at)];
    let found = host.netfilter(Ns::Host)?.nftables().find(&chain, &references)?.unwrap_or_default();
    let mapped: HashSet<HostPort> =
        mappings(config, family).iter().filter_map(|one| host_port(&matches(one))).collect();
    let supersedes = |parts: &[Expression]| host_port(parts).is_some_and(|port| mapped.contains(&port));
    let rules: Vec<NftRule> = found
        .into_iter()
        .filter_map(|rule| rule.expressions)
        .filter(|parts| supersedes(parts))
        .map(|parts| NftRule::new(chain.clone(), parts).with_comment(comment(at)))
        .collect();
    let which = RuleSelection::Listed(rules);
    let rules = vec![UnwantedNftRules { chain, which: which.clone() }];
    Ok((which != RuleSelection::Listed(Vec::new())).then(|| NftRemoval { rules, ..NftRemoval::default() }))
}

/// The packets of a mapping: destination address, if restricted, protocol and port.
type HostPort = (Option<Cidr>, Proto, u16);

/// The packets that the first parts of a rule match, if [`matches`] has written them.
fn host_port(parts: &[Expression]) -> Option<HostPort> {
    match parts {
        [Expression::Address(PacketEnd::Destination, Equality::Equal, cidr), Expression::Port(proto, port), ..] => {
            Some((Some(*cidr), *proto, *port))
        }
        [Expression::Port(proto, port), ..] => Some((None, *proto, *port)),
        _ => None,
    }
}

/// DEL in both families. `flows` are the connections that the mappings are known to have led to the container, and
/// `known` the families in which it has rules here; if the kernel has nf_tables, these must be readable.
pub fn del(host: &mut dyn Host, at: &Attachment, flows: &[StaleFlows], known: &[Family]) -> Result<(), Error> {
    each_family(host, |host, family| {
        let references = [made_by_reference(at)];
        let found = match host.netfilter(Ns::Host)?.nftables().find(&hostports(family), &references) {
            Err(error) if error.kind == NetfilterErrorKind::NotPermitted && known.contains(&family) => {
                return Err(error.into());
            }
            found => unless_absent(found)?.flatten(),
        };
        let Some(mut rules) = found else { return Ok(()) };
        let unwanted = remove(at, family);
        rules.extend(list(host, &unwanted.chains[0])?.unwrap_or_default());
        let known = flows.iter().filter(|stale| stale.family() == family).cloned();
        let mut stale: Vec<StaleFlows> = known.filter(|_| !rules.is_empty()).collect();
        if stale.is_empty() {
            stale = flows::of_ports(rules.iter().filter_map(udp_port).collect());
        }
        flows::remove_with_flows(host, unwanted.into(), stale)
    })
}

/// The addresses to which a container's rules lead, in both families: those of this plugin, and those of the reference. `None` if one
/// of the rules cannot be read.
pub fn targets(at: &Attachment, host: &mut dyn Host) -> Result<Option<BTreeSet<IpAddr>>, Error> {
    let mut found = BTreeSet::new();
    for family in Family::ALL {
        let references = [made_by_reference(at)];
        let listed = unless_absent(host.netfilter(Ns::Host)?.nftables().find(&hostports(family), &references))?;
        let mut rules = listed.flatten().unwrap_or_default();
        rules.extend(list(host, &table(family).chain_named(own(OWN_DNAT, at)))?.unwrap_or_default());
        for rule in rules {
            let Some(parts) = rule.expressions else { return Ok(None) };
            found.extend(
                parts.iter().filter_map(|part| if let Expression::Dnat(to, _) = part { Some(*to) } else { None }),
            );
        }
    }
    Ok(Some(found))
}

/// The places of the first rules that lead to some attachments, in order, for those that have any, made by this plugin or by the reference.
pub fn places<const N: usize>(
    family: Family,
    attachments: [&Attachment; N],
    host: &mut dyn Host,
) -> Result<[Option<usize>; N], Error> {
    let rules = list(host, &hostports(family))?.unwrap_or_default();
    Ok(attachments.map(|at| {
        let (chain, comment) = (own(OWN_DNAT, at), comment(at));
        let is_references =
            |rule: &ListedRule| rule.leads_to().next().is_none() && rule.comment.as_deref() == Some(comment.as_str());
        rules.iter().position(|rule| rule.leads_to().any(|name| *name == chain) || is_references(rule))
    }))
}

/// GC in both families: removes chains of the network that belong to no valid attachment. The network of the
/// reference's rules is unknown.
pub fn gc(host: &mut dyn Host, network: &NetworkName, valid: &ValidAttachments) -> Result<(), Error> {
    each_family(host, |host, family| {
        let mut unwanted = NftRemoval::default();
        let mut ports = Vec::new();
        for (chain, start) in [(hostports(family), OWN_DNAT), (masquerading(family), OWN_MASQUERADE)] {
            let rules = list(host, &chain)?.unwrap_or_default();
            for name in stale(&rules, start, network, valid) {
                let own = table(family).chain_named(name.clone());
                let found = list(host, &own)?.unwrap_or_default();
                ports.extend(found.iter().filter_map(udp_port));
                unwanted.rules.push(tagged(chain.clone(), RuleTag::LeadsTo(name)));
                unwanted.chains.push(own);
            }
        }
        if unwanted == NftRemoval::default() {
            return Ok(());
        }
        flows::remove_with_flows(host, unwanted.into(), flows::of_ports(ports))
    })
}

/// The chains of the network to which rules lead, except those of valid attachments.
fn stale(
    rules: &[ListedRule],
    start: &'static str,
    network: &NetworkName,
    valid: &ValidAttachments,
) -> BTreeSet<NftName> {
    let of_network = format!("{}-", NftName::hashed_parts(start, &[network.as_str()]));
    let keep: BTreeSet<NftName> = valid.of_network(network).map(|at| own(start, &at)).collect();
    let names = rules.iter().flat_map(ListedRule::leads_to);
    names.filter(|name| name.as_str().starts_with(&of_network) && !keep.contains(name)).cloned().collect()
}

/// The rules of the reference for an attachment, which has no chains of its own.
fn made_by_reference(at: &Attachment) -> RuleSelection {
    RuleSelection::Tagged(RuleTag::LeadsNowhere(comment(at)))
}

/// The rules of a chain; `None` if it does not exist.
fn list(host: &mut dyn Host, chain: &ChainId) -> Result<Option<Vec<ListedRule>>, Error> {
    Ok(unless_absent(host.netfilter(Ns::Host)?.nftables().list(chain))?.flatten())
}

/// A family that fails does not keep the other.
fn each_family(host: &mut dyn Host, work: impl Fn(&mut dyn Host, Family) -> Result<(), Error>) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    for family in Family::ALL {
        removal.attempt(|host| work(host, family));
    }
    removal.finish()
}

/// The UDP port that a rule translates, if it is readable.
fn udp_port(rule: &ListedRule) -> Option<UdpPort> {
    let parts = rule.expressions.as_deref()?;
    let port =
        parts.iter().find_map(|part| if let Expression::Port(Proto::Udp, port) = part { Some(*port) } else { None })?;
    let host_ip = parts.iter().find_map(|part| {
        if let Expression::Address(PacketEnd::Destination, Equality::Equal, cidr) = part {
            Some(cidr.address())
        } else {
            None
        }
    });
    let to =
        parts.iter().find_map(|part| if let Expression::Dnat(to, port) = part { Some((*to, *port)) } else { None });
    let (address, to_port) = to?;
    Some(UdpPort { host_ip, port, target: SocketAddr::new(address, to_port.unwrap_or(port)) })
}
