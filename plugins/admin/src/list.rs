//! `cni-plugins list`: what there is of containers, and what is missing or left over.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use cni_plugin::namespace::Life;
use serde_json::{Value, json};

use crate::cache::{Cached, PublishedPort};
use crate::contested::{self, ContestedPort};
use crate::inventory::{Attached, Depth, Inventory, Leftover, Source};
use crate::output::{FOUND, failed, paths, print, report};
use crate::refusal::refusal;
use crate::repair::{NamedPart, RepairOutcome};
use crate::result_cache;
use crate::scope::Scope;
use crate::table::Table;
use cni_linux::output::one_line;

/// How many characters of a container's name are shown.
const SHORT: usize = 12;

/// The options of `list`.
#[derive(Args, Debug)]
pub struct ListOptions {
    #[command(flatten)]
    scope: Scope,
    /// do not shorten the names of containers
    #[arg(long)]
    full: bool,
    /// show more: namespace, MAC addresses, interfaces on the host, and why an attachment is gone
    #[arg(long)]
    wide: bool,
    /// print one JSON document, for programs
    #[arg(long)]
    json: bool,
}

/// Prints what there is.
pub fn run(options: &ListOptions) -> ExitCode {
    if let Some(sentence) = refusal() {
        return failed("cni-plugins list", &sentence);
    }
    let found = Inventory::observe(&options.scope, Depth::Rules);
    let text = if options.json { json_text(&found) } else { text(&found, options) };
    status(&found, print(&text))
}

/// The exit status, once the answer has been printed.
pub fn status(found: &Inventory, printed: ExitCode) -> ExitCode {
    report("cni-plugins", &found.unknown);
    match printed {
        ExitCode::SUCCESS if !found.unknown.is_empty() => ExitCode::FAILURE,
        ExitCode::SUCCESS if !found.is_clean() => ExitCode::from(FOUND),
        other => other,
    }
}

fn text(found: &Inventory, options: &ListOptions) -> String {
    let caches = result_cache::line(&found.caches);
    if found.attached.is_empty() && found.left.is_empty() {
        return format!("no containers\n{caches}");
    }
    let rows = rows(found);
    let table = if options.wide {
        let mut table = Table::new(WIDE_HEADINGS);
        rows.iter().for_each(|row| table.row(row.wide(options.full)));
        table.text()
    } else {
        let mut table = Table::new(HEADINGS);
        rows.iter().for_each(|row| table.row(row.narrow(options.full)));
        table.text()
    };
    let contested = contested::find(found).into_iter().map(|port| one_line(&port.to_string()) + "\n");
    table + &contested.collect::<String>() + &caches
}

const HEADINGS: [&str; 8] = ["NETWORK", "CONTAINER", "INTERFACE", "ADDRESSES", "PORTS", "PLUGINS", "AGE", "STATE"];

const WIDE_HEADINGS: [&str; 11] = [
    "NETWORK",
    "CONTAINER",
    "NAMESPACE",
    "INTERFACE",
    "MAC",
    "HOST-INTERFACES",
    "ADDRESSES",
    "PORTS",
    "PLUGINS",
    "AGE",
    "STATE",
];

/// A line of the table.
struct ListRow<'a> {
    cached: &'a Cached,
    addresses: Vec<IpAddr>,
    age: Option<Duration>,
    state: String,
    /// What the state does not say in the narrow table.
    reason: Option<&'a str>,
}

fn rows(found: &Inventory) -> Vec<ListRow<'_>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let attached = found.attached.iter().map(|Attached { cached, file, outcome, .. }| ListRow {
        cached,
        addresses: cached.addresses.clone(),
        age: Some(now.saturating_sub(file.written())),
        state: said(outcome),
        reason: if let RepairOutcome::Gone(why) = outcome { Some(why) } else { None },
    });
    let left = found.left.iter().map(|left| ListRow {
        cached: &left.cached,
        addresses: left.addresses(),
        age: left.written().map(|written| now.saturating_sub(written)),
        state: said_of_left(left),
        reason: None,
    });
    attached.chain(left).collect()
}

impl ListRow<'_> {
    fn narrow(&self, is_full: bool) -> [String; 8] {
        let Self { cached, addresses, age, state, reason: _ } = self;
        let container = cached.at.container.as_str();
        let ports: Vec<String> = cached.ports.iter().map(port).collect();
        [
            cached.at.network.to_string(),
            if is_full { container.to_owned() } else { shortened(container) },
            cached.at.ifname.to_string(),
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            ports.join(","),
            cached.plugins.iter().map(|config| config.kind.as_str()).collect::<Vec<_>>().join(","),
            age.map(aged).unwrap_or_default(),
            state.clone(),
        ]
    }

    fn wide(&self, is_full: bool) -> [String; 11] {
        let Cached { netns, macs, host_interfaces, .. } = self.cached;
        let [network, container, ifname, addresses, ports, plugins, age, state] = self.narrow(is_full);
        let namespace = netns.clone().unwrap_or_default();
        let state = self.reason.map_or_else(|| state.clone(), |reason| format!("{state}: {reason}"));
        let (macs, host_interfaces) = (macs.join(","), host_interfaces.join(","));
        [network, container, namespace, ifname, macs, host_interfaces, addresses, ports, plugins, age, state]
    }
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(SHORT) {
        Some((end, _)) if name.chars().count() > SHORT + 1 => format!("{}…", &name[..end]),
        Some(_) | None => name.to_owned(),
    }
}

/// A port as `docker ps` writes it.
pub fn port(port: &PublishedPort) -> String {
    let PublishedPort { host_port, container_port, protocol, host_ip } = port;
    let host = match host_ip.as_str() {
        "" => String::new(),
        v6 if v6.contains(':') => format!("[{v6}]:"),
        v4 => format!("{v4}:"),
    };
    format!("{host}{host_port}->{container_port}/{}", protocol.to_lowercase())
}

/// The two largest units.
fn aged(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{}s", seconds % 60),
        (0, _, _) => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

/// The state of an attachment, in words.
pub fn said(outcome: &RepairOutcome) -> String {
    match outcome {
        RepairOutcome::Complete => "whole".to_owned(),
        RepairOutcome::Gone(_) => "gone".to_owned(),
        RepairOutcome::Missing(_) | RepairOutcome::Unknown(_) => outcome.to_string(),
        RepairOutcome::Skipped(why) => format!("unclear: {why}"),
        RepairOutcome::Repaired(_) | RepairOutcome::Failed(..) => format!("unclear: {outcome}"),
    }
}

/// The state of what is left of an attachment, in words.
pub fn said_of_left(left: &Leftover) -> String {
    match (&left.life, &left.source) {
        (Life::Unknown(why), _) => format!("unclear: {why}"),
        (Life::Alive | Life::Dead, Source::Leases { .. }) => "left over".to_owned(),
        (Life::Alive | Life::Dead, Source::Record | Source::Owner(_)) => "left over: records".to_owned(),
    }
}

fn json_text(found: &Inventory) -> String {
    let document = json!({
        "attachments": found.attached.iter().map(attached).collect::<Vec<_>>(),
        "leftOver": found.left.iter().map(left).collect::<Vec<_>>(),
        "contestedPorts": contested::find(found).iter().map(ContestedPort::json).collect::<Vec<_>>(),
        "problems": found.unknown,
        "caches": paths(&found.caches),
    });
    format!("{document:#}\n")
}

fn attached(Attached { cached, file, outcome, .. }: &Attached) -> Value {
    let (state, missing, reason) = match outcome {
        RepairOutcome::Complete => ("whole", Vec::new(), String::new()),
        RepairOutcome::Gone(why) => ("gone", Vec::new(), why.clone()),
        RepairOutcome::Unknown(_) => ("unknown", Vec::new(), outcome.to_string()),
        RepairOutcome::Missing(parts) => ("missing", parts.iter().map(part).collect(), String::new()),
        RepairOutcome::Skipped(why) => ("unclear", Vec::new(), why.clone()),
        RepairOutcome::Repaired(_) | RepairOutcome::Failed(..) => ("unclear", Vec::new(), outcome.to_string()),
    };
    json!({
        "network": cached.at.network.as_str(),
        "container": cached.at.container.as_str(),
        "ifname": cached.at.ifname.as_str(),
        "netns": cached.netns,
        "macs": cached.macs,
        "hostInterfaces": cached.host_interfaces,
        "addresses": cached.addresses,
        "ports": cached.ports,
        "plugins": cached.plugins.iter().map(|config| &config.kind).collect::<Vec<_>>(),
        "addedAt": file.written().as_secs(),
        "state": state,
        "missing": missing,
        "reason": reason,
        "cache": file.path.display().to_string(),
    })
}

fn part(NamedPart { plugin, missing }: &NamedPart) -> Value {
    json!({"plugin": plugin, "first": missing})
}

fn left(left: &Leftover) -> Value {
    let (state, reason) = match &left.life {
        Life::Unknown(why) => ("unclear", why.as_str()),
        Life::Alive | Life::Dead => ("left over", ""),
    };
    json!({
        "network": left.cached.at.network.as_str(),
        "container": left.cached.at.container.as_str(),
        "ifname": left.cached.at.ifname.as_str(),
        "addresses": left.addresses(),
        "leasedAt": left.written().map(|written| written.as_secs()),
        "state": state,
        "reason": reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_two_units() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (61, "1m1s"), (7260, "2h1m"), (180_000, "2d2h")] {
            assert_eq!(aged(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_long_name_is_cut_where_something_is_won() {
        for (name, shown) in
            [("short", "short"), ("exactly-13-ch", "exactly-13-ch"), ("cnitool-1903154e", "cnitool-1903…")]
        {
            assert_eq!(shortened(name), shown);
        }
    }

    #[test]
    fn a_port_is_written_with_its_address_if_it_has_one() {
        let of = |host_ip: &str| {
            let (protocol, host_ip) = ("TCP".to_owned(), host_ip.to_owned());
            port(&PublishedPort { host_port: 8080, container_port: 80, protocol, host_ip })
        };
        assert_eq!(
            ["", "192.0.2.1", "2001:db8::1"].map(of),
            ["8080->80/tcp", "192.0.2.1:8080->80/tcp", "[2001:db8::1]:8080->80/tcp"]
        );
    }
}
