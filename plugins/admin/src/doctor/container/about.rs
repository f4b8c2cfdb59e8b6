//! What one container has, and where it is kept: for people, and for programs.

use std::iter::repeat;
use std::net::IpAddr;
use std::path::PathBuf;

use cni_core::error::Error;
use cni_core::names::{Attachment, IfName};
use cni_host_local::Holder;
use cni_linux::host::LinuxHost;
use cni_linux::output::one_line;
use cni_model::plan::Step;
use cni_netfilter::iptables::{IptablesRule, IptablesRuleset};
use cni_netfilter::nftables::{ChainContent, NftRuleset};
use cni_netfilter::{MissingRule, Ruleset};
use cni_plugin::host::Host as _;
use cni_plugin::missing::MissingPart;
use cni_plugin::namespace::Life;
use serde_json::{Value, json};

use crate::cache::Cached;
use crate::calls::neutral_request;
use crate::doctor::finding::Finding;
use crate::inventory::{Attached, Inventory};
use crate::list::{port, said, said_of_left};
use crate::output::{error_line, paths};
use crate::repair::{self, RepairOutcome};
use crate::result_cache;

/// How wide the names of lines are.
const WIDTH: usize = 12;

/// A container.
#[derive(Debug)]
pub struct About<'a> {
    container: &'a str,
    attachments: Vec<AboutAttachment<'a>>,
    /// The entries of its attachments in the ledger.
    records: Vec<PathBuf>,
    /// The directories of the caches that were read.
    caches: &'a [PathBuf],
}

/// One of its attachments.
#[derive(Debug)]
struct AboutAttachment<'a> {
    cached: &'a Cached,
    state: String,
    /// Whether its namespace lives.
    life: &'static str,
    addresses: Vec<IpAddr>,
    /// What the plugins make of rules, or why that is not known.
    rules: Result<OwnRules, String>,
    /// The file of the runtime's cache, if there is one.
    cache: Option<String>,
    leases: Vec<String>,
}

impl<'a> About<'a> {
    /// Collects what there is of a container.
    ///
    /// # Errors
    /// In words, when the records cannot be listed.
    pub fn observe(container: &'a str, found: &'a Inventory) -> Result<Self, String> {
        let is_own = |cached: &Cached| cached.at.container.as_str() == container;
        let attached = found.attached.iter().filter(|one| is_own(&one.cached)).map(|one| AboutAttachment {
            cached: &one.cached,
            state: said(&one.outcome),
            life: life_name(&one.life),
            addresses: one.cached.addresses.clone(),
            rules: rules(one),
            cache: Some(one.file.path.display().to_string()),
            leases: leases(&one.cached, found),
        });
        let left = found.left.iter().filter(|left| is_own(&left.cached)).map(|left| AboutAttachment {
            cached: &left.cached,
            state: said_of_left(left),
            life: life_name(&left.life),
            addresses: left.addresses(),
            rules: Err("the cache does not have it".to_owned()),
            cache: None,
            leases: leases(&left.cached, found),
        });
        let attachments: Vec<_> = attached.chain(left).collect();
        let records = records_of(attachments.iter().map(|one| &one.cached.at)).map_err(|error| error_line(&error))?;
        Ok(Self { container, attachments, records, caches: &found.caches })
    }
}

const fn life_name(life: &Life) -> &'static str {
    match life {
        Life::Alive => "alive",
        Life::Dead => "ended",
        Life::Unknown(_) => "unclear",
    }
}

/// The files of its leases. Very old ones do not name the interface.
fn leases(cached: &Cached, found: &Inventory) -> Vec<String> {
    let is_own = |holder: &&Holder| {
        let ifname = holder.ifname.as_deref().and_then(|name| IfName::parse(name).ok());
        holder.container == cached.at.container.as_str() && ifname.is_none_or(|name| name == cached.at.ifname)
    };
    let pools = found.pools.iter().filter(|pool| pool.network == cached.at.network);
    let files = pools.flat_map(|pool| {
        pool.holders.iter().filter(is_own).map(|holder| pool.directory.join(holder.address.to_string()))
    });
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    paths(&files)
}

fn rules(one: &Attached) -> Result<OwnRules, String> {
    match &one.life {
        Life::Alive => {}
        Life::Dead => return Err("its network namespace has ended".to_owned()),
        Life::Unknown(reason) => return Err(reason.clone()),
    }
    match repair::made(&one.cached, &one.file) {
        Ok(parts) => Ok(OwnRules::of(&parts)),
        // No plugin of the list is ours.
        Err(RepairOutcome::Complete) => Ok(OwnRules::default()),
        Err(RepairOutcome::Gone(reason) | RepairOutcome::Skipped(reason)) => Err(reason),
        Err(other) => Err(other.to_string()),
    }
}

/// The chains and rules of the packet filter that plugins make for one attachment alone, as text, in the order in which they are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OwnRules {
    chains: Vec<String>,
    /// Rules in chains that it shares, then those in its own.
    rules: Vec<String>,
}

impl OwnRules {
    /// What some plans make.
    fn of<'a>(parts: impl IntoIterator<Item = &'a MissingPart>) -> Self {
        let mut own = Self::default();
        for (_, step) in parts.into_iter().flat_map(|part| part.plan.steps()) {
            if let Step::EnsureRules { ruleset, .. } = step {
                match ruleset {
                    Ruleset::Iptables(ruleset) => own.add_iptables(ruleset),
                    Ruleset::Nftables(ruleset) => own.add_nftables(ruleset),
                }
            }
        }
        own
    }

    fn add_iptables(&mut self, ruleset: &IptablesRuleset) {
        let IptablesRuleset { family, table, chains, rules, .. } = ruleset;
        self.chains.extend(chains.iter().map(|chain| format!("{} -t {table} {}", family.iptables(), chain.name)));
        let all = rules.iter().chain(chains.iter().flat_map(|chain| &chain.rules));
        let text = |rule: &IptablesRule| {
            MissingRule::Iptables { family: *family, table: *table, rule: rule.clone() }.to_string()
        };
        self.rules.extend(all.map(text));
    }

    fn add_nftables(&mut self, ruleset: &NftRuleset) {
        for wanted in &ruleset.chains {
            if let ChainContent::Own(rules) = &wanted.content {
                self.chains.push(format!("nft {}", wanted.chain.id));
                self.rules.extend(rules.iter().map(|rule| MissingRule::Nftables(rule.clone()).to_string()));
            }
        }
        let shared = ruleset.owned.iter().flat_map(|owned| &owned.rules);
        self.rules.extend(shared.map(|rule| MissingRule::Nftables(rule.clone()).to_string()));
        let elements = ruleset.elements.iter().filter(|elements| !elements.addresses.is_empty());
        self.rules.extend(elements.map(|elements| MissingRule::Elements(elements.clone()).to_string()));
    }
}

/// The files of what is recorded of some attachments.
fn records_of<'a>(all: impl Iterator<Item = &'a Attachment>) -> Result<Vec<PathBuf>, Error> {
    let mut host = LinuxHost::new(&neutral_request()?);
    let mut found = Vec::new();
    for at in all {
        match host.ledger().entry(at) {
            Ok(Some(_)) => found.push(host.record_path(at)?),
            Ok(None) => {}
            Err(error) => log::warn!("{}", error.in_full()),
        }
    }
    Ok(found)
}

/// Text in lines that begin with a name, then the findings, and the caches, if there are several.
pub fn plain_text(about: &About<'_>, findings: &[Finding]) -> String {
    let mut text = lines("container", &[about.container.to_owned()]);
    for one in &about.attachments {
        text.push('\n');
        text += &of_attachment(one);
    }
    if !about.records.is_empty() {
        text += "\n";
        text += &lines("records", &paths(&about.records));
    }
    text.push('\n');
    text + &findings.iter().map(ToString::to_string).collect::<String>() + &result_cache::line(about.caches)
}

fn of_attachment(one: &AboutAttachment<'_>) -> String {
    let AboutAttachment { cached, state, life, addresses, rules, cache, leases } = one;
    let namespace = cached.netns.as_ref().map_or_else(|| (*life).to_owned(), |path| format!("{path} ({life})"));
    let macs: String = cached.macs.iter().filter(|mac| !mac.is_empty()).map(|mac| format!(", MAC {mac}")).collect();
    let (chains, rules) = match rules {
        Ok(own) => (&own.chains[..], &own.rules),
        Err(reason) => (&[][..], &vec![format!("unknown: {reason}")]),
    };
    [
        lines("network", &[format!("{}: {state}", cached.at.network)]),
        lines("namespace", &[namespace]),
        lines("interface", &[format!("{}{macs}", cached.at.ifname)]),
        lines("on the host", &cached.host_interfaces),
        lines("addresses", &addresses.iter().map(ToString::to_string).collect::<Vec<_>>()),
        lines("host ports", &ports(cached)),
        lines("plugins", &[plugins(cached).join(", ")]),
        lines("chains", chains),
        lines("rules", rules),
        lines("cache", cache.as_slice()),
        lines("leases", leases),
    ]
    .concat()
}

fn ports(cached: &Cached) -> Vec<String> {
    cached.ports.iter().map(port).collect()
}

fn plugins(cached: &Cached) -> Vec<&str> {
    cached.plugins.iter().map(|config| config.kind.as_str()).collect()
}

/// Returns a line for each value, the first one with the name; nothing if there are no values.
fn lines(name: &str, values: &[String]) -> String {
    let names = [name].into_iter().chain(repeat(""));
    names.zip(values).map(|(name, value)| format!("{name:WIDTH$} {}\n", one_line(value))).collect()
}

/// One document.
pub fn json_text(about: &About<'_>, findings: &[Finding]) -> String {
    let document = json!({
        "container": about.container,
        "attachments": about.attachments.iter().map(json_of).collect::<Vec<_>>(),
        "records": paths(&about.records),
        "caches": paths(about.caches),
        "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn json_of(one: &AboutAttachment<'_>) -> Value {
    let AboutAttachment { cached, state, life, addresses, rules, cache, leases } = one;
    let own = rules.as_ref().ok();
    json!({
        "network": cached.at.network.as_str(),
        "ifname": cached.at.ifname.as_str(),
        "state": state,
        "netns": cached.netns,
        "namespace": life,
        "macs": cached.macs,
        "hostInterfaces": cached.host_interfaces,
        "addresses": addresses,
        "ports": ports(cached),
        "plugins": plugins(cached),
        "chains": own.map(|own| &own.chains),
        "rules": own.map(|own| &own.rules),
        "cache": cache,
        "leases": leases,
    })
}

#[cfg(test)]
mod tests {
    use cni_core::cidr::Cidr;
    use cni_interface::masquerade::rulesets;
    use cni_model::plan::Plan;
    use cni_netfilter::Backend;

    use super::*;

    #[test]
    fn rules_of_nf_tables_are_shown_and_what_all_share_is_not() {
        let at = cni_plugin::ledger::parse_attachment(&mut "n1 c1 eth0".split(' ')).expect("an attachment");
        let address: Cidr = "10.1.2.5/24".parse().expect("an address");
        let (mut plan, rules) = (Plan::default(), rulesets(Backend::Nftables, &at, &[address]));
        rules.into_iter().for_each(|rules| plan.owned(Step::ensure_rules(rules)));
        let OwnRules { chains, rules } = OwnRules::of(&[MissingPart { missing: String::new(), plan }]);
        let [rule] = &rules[..] else { panic!("{rules:?}") };
        assert!(rule.starts_with("nft inet cni_plugins_masquerade masq_checks ip saddr 10.1.2.5 "), "{rule}");
        assert!(chains.is_empty(), "{chains:?}");
    }
}
