//! The rules, in the reference's order.
//!
//! The reference appends its own rules and inserts each exclusion at the front, so the last entry of each list comes
//! first.

use std::net::SocketAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::ChainName;
use cni_model::plan::{Ns, Step};
use cni_netfilter::iptables::{
    ExistingChain, IptablesRemoval, IptablesRule, IptablesRuleset, IptablesTable, JumpRemoval, Match, OwnedChain,
    OwnedChainRef, Target,
};
use cni_netfilter::{Proto, RulePosition, RuleRemoval, unless_absent};
use cni_plugin::host::Host;

use crate::argument::{DnsRedirection, FAMILY, PROTO, Redirection};

pub const TABLE: IptablesTable = IptablesTable::Nat;

const INBOUND: &str = "CONSUL_PROXY_INBOUND";
const IN_REDIRECT: &str = "CONSUL_PROXY_IN_REDIRECT";
const OUTPUT: &str = "CONSUL_PROXY_OUTPUT";
const REDIRECT: &str = "CONSUL_PROXY_REDIRECT";
const DNS: &str = "CONSUL_DNS_REDIRECT";

/// Our chains, in the order in which the reference makes them.
const CHAINS: [&str; 5] = [INBOUND, IN_REDIRECT, OUTPUT, REDIRECT, DNS];
/// The built-in chains that jump to ours.
const PARENTS: [&str; 2] = ["PREROUTING", "OUTPUT"];

const DNS_PORT: u16 = 53;

/// Everything that a container needs.
pub fn ruleset(redirection: &Redirection) -> IptablesRuleset {
    let owned = |name: &'static str, rules: Vec<(Vec<Match>, Target)>| OwnedChain {
        name: ChainName::fixed(name),
        rules: rules.into_iter().map(|(matches, target)| rule(name, matches, target)).collect(),
        existing: ExistingChain::ReplaceInOrder,
    };
    let redirect = |port| vec![(vec![Match::Protocol(PROTO)], Target::Redirect(port))];
    let chains = vec![
        owned(INBOUND, inbound(redirection)),
        owned(IN_REDIRECT, redirect(redirection.inbound)),
        owned(OUTPUT, outbound(redirection)),
        owned(REDIRECT, redirect(redirection.outbound)),
        owned(DNS, redirection.dns.map(questions).unwrap_or_default()),
    ];
    IptablesRuleset {
        family: FAMILY,
        table: TABLE,
        shared_chains: Vec::new(),
        shared: Vec::new(),
        chains,
        rules: entries(redirection),
        position: RulePosition::Back,
    }
}

fn rule(chain: &'static str, matches: Vec<Match>, target: Target) -> IptablesRule {
    IptablesRule::new(ChainName::fixed(chain), matches, target)
}

fn jump(chain: &'static str) -> Target {
    Target::Jump(ChainName::fixed(chain))
}

/// The rules by which packets enter our chains.
fn entries(redirection: &Redirection) -> Vec<IptablesRule> {
    let questions = redirection.dns.into_iter().flat_map(asked).map(|matches| rule("OUTPUT", matches, jump(DNS)));
    let outbound = rule("OUTPUT", vec![Match::Protocol(PROTO)], jump(OUTPUT));
    let inbound = rule("PREROUTING", vec![Match::Protocol(PROTO)], jump(INBOUND));
    questions.chain([outbound, inbound]).collect()
}

fn inbound(redirection: &Redirection) -> Vec<(Vec<Match>, Target)> {
    let direct = redirection.direct_inbound.iter().rev().cloned().map(direct);
    direct.chain([(vec![Match::Protocol(PROTO)], jump(IN_REDIRECT))]).collect()
}

fn outbound(redirection: &Redirection) -> Vec<(Vec<Match>, Target)> {
    let Redirection { direct_users, direct_networks, direct_outbound, proxy, .. } = redirection;
    let users = direct_users.iter().rev().map(|users| direct(Match::User(*users)));
    let networks = direct_networks.iter().rev().map(|network| direct(Match::destination(*network)));
    let ports = direct_outbound.iter().rev().cloned().map(direct);
    let loopback = Match::destination(Cidr::host(FAMILY.loopback()));
    let always = [direct(Match::User(*proxy)), direct(loopback), (Vec::new(), jump(REDIRECT))];
    users.chain(networks).chain(ports).chain(always).collect()
}

/// Leaves out the proxy.
fn direct(what: Match) -> (Vec<Match>, Target) {
    (vec![what], Target::Return)
}

fn questions(dns: DnsRedirection) -> Vec<(Vec<Match>, Target)> {
    let to = match dns {
        DnsRedirection::Address(address) => Target::DnatAddress(address.into()),
        DnsRedirection::Port(to) => Target::Dnat(SocketAddr::V4(to)),
    };
    asked(dns).map(|matches| (matches, to.clone())).to_vec()
}

/// Questions to the DNS by either protocol: to anybody, or to the address that has them at another port.
fn asked(dns: DnsRedirection) -> [Vec<Match>; 2] {
    [Proto::Udp, Proto::Tcp].map(|proto| {
        let port = Match::Port(proto, DNS_PORT);
        match dns {
            DnsRedirection::Address(_) => vec![port],
            DnsRedirection::Port(to) => vec![Match::destination(Cidr::host((*to.ip()).into())), port],
        }
    })
}

/// Removes everything in one batch. The reference makes its chains first, so without a chain there is nothing to
/// remove. A user inside the container may jump to our chains from other rules: then all stay, empty.
pub fn remove(host: &mut dyn Host) -> Result<(), Error> {
    for chain in CHAINS {
        if list(host, chain)?.is_some() {
            return remove_chains(host);
        }
    }
    Ok(())
}

/// Removes all chains, whatever is in them, and the listed rules that jump to them.
fn remove_chains(host: &mut dyn Host) -> Result<(), Error> {
    let mut rules = Vec::new();
    for parent in PARENTS {
        rules.extend(list(host, parent)?.unwrap_or_default());
    }
    rules.retain(|rule| CHAINS.iter().any(|chain| rule.jumps_to(&ChainName::fixed(chain))));
    let parents = PARENTS.map(ChainName::fixed).to_vec();
    let chain =
        |name| OwnedChainRef { name: ChainName::fixed(name), parents: parents.clone(), jumps: JumpRemoval::All };
    let removal = IptablesRemoval { family: FAMILY, table: TABLE, chains: CHAINS.map(chain).to_vec(), rules };
    let removal = RuleRemoval::from(removal).known();
    host.apply(&Step::RemoveRules { ns: Ns::Container, removal }).map(drop)
}

/// The rules of a chain; `None` if it does not exist.
fn list(host: &mut dyn Host, chain: &'static str) -> Result<Option<Vec<IptablesRule>>, Error> {
    let listed = host.netfilter(Ns::Container)?.iptables().list(FAMILY, TABLE, &ChainName::fixed(chain));
    Ok(unless_absent(listed)?.flatten())
}
