//! How many attachments live and are whole, what is missing of their rules, and which host ports they have.

use std::collections::{BTreeMap, BTreeSet};

use cni_core::names::NetworkName;
use cni_linux::output::one_line;
use cni_plugin::namespace::Life;

use super::text::{Metric, Sample};
use crate::cache::PublishedPort;
use crate::contested;
use crate::inventory::{Attached, Inventory};
use crate::repair::{NamedPart, RepairOutcome};
use crate::result_cache;

/// Every life, with what can be said of the rules of such an attachment.
const STATES: [(&str, &str); 5] =
    [("alive", "whole"), ("alive", "missing"), ("alive", "unknown"), ("dead", "unknown"), ("unclear", "unknown")];

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// Values by network and one or two more labels. What is counted is there even if it is 0, so that it can be compared.
type CountsByNetwork<'a, K> = BTreeMap<(&'a NetworkName, K), usize>;

/// The metrics of attachments.
pub fn metrics(found: &Inventory) -> Vec<Metric> {
    vec![states(found), caches(found), left(found), missing(found), ports(found), contested_ports(found)]
}

fn states(found: &Inventory) -> Metric {
    let networks: BTreeSet<&NetworkName> = found.attached.iter().map(|one| &one.cached.at.network).collect();
    let mut counted: CountsByNetwork<'_, (&str, &str)> =
        networks.into_iter().flat_map(|network| STATES.map(|state| ((network, state), 0))).collect();
    for one in &found.attached {
        let state = (life_name(&one.life), rules_name(&one.outcome));
        *counted.entry((&one.cached.at.network, state)).or_default() += 1;
    }
    let sample = |((network, (life, rules)), count): (&(&NetworkName, (&str, &str)), &usize)| {
        Sample::count([("network", network.as_str()), ("life", life), ("rules", rules)], *count)
    };
    Metric::new(
        "cni_attachments",
        "Attachments in the runtime's cache, by whether their namespace lives and whether their rules are whole.",
        counted.iter().map(sample),
    )
}

/// By the directory that `--cache-dir` takes.
fn caches(found: &Inventory) -> Metric {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for directory in &found.caches {
        let has = |one: &&Attached| one.file.path.parent() == Some(&*result_cache::results(directory));
        // Two paths that are not text may be one label.
        *counted.entry(one_line(&directory.to_string_lossy())).or_default() +=
            found.attached.iter().filter(has).count();
    }
    let samples = counted.iter().map(|(label, count)| Sample::count([("directory", label)], *count));
    Metric::new("cni_cache_attachments", "Attachments in each cache that was read.", samples)
}

const fn life_name(life: &Life) -> &'static str {
    match life {
        Life::Alive => "alive",
        Life::Dead => "dead",
        Life::Unknown(_) => "unclear",
    }
}

/// Rules of the dead are not looked at.
fn rules_name(outcome: &RepairOutcome) -> &'static str {
    match missing_parts(outcome) {
        [] if matches!(outcome, RepairOutcome::Complete) => "whole",
        [] => "unknown",
        [_, ..] => "missing",
    }
}

fn left(found: &Inventory) -> Metric {
    let networks = found.pools.iter().map(|pool| &pool.network);
    let networks: BTreeSet<_> = networks.chain(found.attached.iter().map(|one| &one.cached.at.network)).collect();
    let lives: &[&str] = if found.has_not_looked { &[] } else { &["dead", "unclear"] };
    let mut counted: CountsByNetwork<'_, &str> =
        networks.into_iter().flat_map(|network| lives.iter().map(move |life| ((network, *life), 0))).collect();
    for one in &found.left {
        *counted.entry((&one.cached.at.network, life_name(&one.life))).or_default() += 1;
    }
    by_network(
        "cni_leftovers",
        "Attachments that are not in the runtime's cache, but have left leases or records.",
        "life",
        &counted,
    )
}

fn missing(found: &Inventory) -> Metric {
    let mut counted: CountsByNetwork<'_, &str> = BTreeMap::new();
    for Attached { cached, outcome, .. } in &found.attached {
        let network = &cached.at.network;
        let ours = cached.plugins.iter().filter(|config| cni_builtin::plugin(&config.kind).is_some());
        ours.for_each(|config| {
            counted.entry((network, config.kind.as_str())).or_default();
        });
        missing_parts(outcome)
            .iter()
            .for_each(|part| *counted.entry((network, part.plugin.as_str())).or_default() += 1);
    }
    by_network(
        "cni_missing_rules",
        "Groups of packet filter rules of living attachments that are not whole; cni-plugins repair restores them.",
        "plugin",
        &counted,
    )
}

fn missing_parts(outcome: &RepairOutcome) -> &[NamedPart] {
    if let RepairOutcome::Failed(_, rest) = outcome {
        return missing_parts(rest);
    }
    if let RepairOutcome::Missing(parts) = outcome { parts } else { &[] }
}

fn ports(found: &Inventory) -> Metric {
    let mut counted: CountsByNetwork<'_, &str> = BTreeMap::new();
    let living = found.attached.iter().filter(|one| one.life != Life::Dead);
    for Attached { cached, .. } in living.filter(|one| one.cached.has_portmap()) {
        let network = &cached.at.network;
        PROTOCOLS.into_iter().for_each(|protocol| {
            counted.entry((network, protocol)).or_default();
        });
        cached.published().for_each(|port| *counted.entry((network, protocol_name(port))).or_default() += 1);
    }
    by_network("cni_host_ports", "Ports of the host that lead to attachments which are not dead.", "protocol", &counted)
}

/// A runtime passes on what its users have written. Each text of theirs would be a series for ever.
fn protocol_name(port: &PublishedPort) -> &'static str {
    let name = contested::protocol(port);
    PROTOCOLS.into_iter().find(|known| *known == name).unwrap_or("other")
}

fn contested_ports(found: &Inventory) -> Metric {
    let help = "Ports of the host that more than one container asks for.";
    Metric::new("cni_contested_host_ports", help, [Sample::count([], contested::count(found))])
}

fn by_network(
    name: &'static str,
    help: &'static str,
    label: &'static str,
    counted: &CountsByNetwork<'_, &str>,
) -> Metric {
    let sample = |((network, value), count): (&(&NetworkName, &str), &usize)| {
        Sample::count([("network", network.as_str()), (label, value)], *count)
    };
    Metric::new(name, help, counted.iter().map(sample))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(plugins: &[&str]) -> RepairOutcome {
        let part = |plugin: &&str| NamedPart { plugin: (*plugin).to_owned(), missing: "a rule".to_owned() };
        RepairOutcome::Missing(plugins.iter().map(part).collect())
    }

    #[test]
    fn every_outcome_has_a_name_that_is_counted_even_if_it_is_0() {
        for (life, outcome, state) in [
            (Life::Alive, RepairOutcome::Complete, ("alive", "whole")),
            (Life::Alive, parts(&["bridge"]), ("alive", "missing")),
            (Life::Alive, RepairOutcome::Failed(Vec::new(), Box::new(parts(&["bridge"]))), ("alive", "missing")),
            (Life::Alive, RepairOutcome::Failed(Vec::new(), Box::new(RepairOutcome::Complete)), ("alive", "unknown")),
            (Life::Alive, RepairOutcome::Unknown(vec!["multus".to_owned()]), ("alive", "unknown")),
            (Life::Alive, RepairOutcome::Skipped("being deleted".to_owned()), ("alive", "unknown")),
            (Life::Dead, RepairOutcome::Gone("ended".to_owned()), ("dead", "unknown")),
            (Life::Unknown("hidden".to_owned()), RepairOutcome::Skipped("hidden".to_owned()), ("unclear", "unknown")),
        ] {
            let named = (life_name(&life), rules_name(&outcome));
            assert_eq!(named, state);
            assert!(STATES.contains(&named), "{named:?}");
        }
        assert_eq!(missing_parts(&parts(&["bridge", "portmap"])).len(), 2);
    }

    #[test]
    fn a_protocol_of_a_users_own_is_another() {
        let named = |protocol: &str| {
            let (protocol, host_ip) = (protocol.to_owned(), String::new());
            protocol_name(&PublishedPort { host_port: 1, container_port: 1, protocol, host_ip })
        };
        assert_eq!(["", "TCP", "udp", "Sctp", "quic\u{1b}"].map(named), ["tcp", "tcp", "udp", "sctp", "other"]);
    }
}
