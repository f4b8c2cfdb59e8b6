//! `cni-plugins list`: what there is of containers, and what is missing or left over.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use cni_linux::output::one_line;
use cni_plugin::namespace::Life;
use serde_json::{Value, json};

use crate::cache::{Cached, PublishedPort};
use crate::contested::{self, ContestedPort};
use crate::inventory::{Attached, Inventory, Leftover, Source};
use crate::life::require_host;
use crate::output::{paths, print, report, status};
use crate::repair::{NamedPart, RepairOutcome};
use crate::result_cache::{self, Scope};

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
pub fn run(options: &ListOptions) -> Result<ExitCode, String> {
    require_host()?;
    let found = Inventory::observe_rules(&options.scope);
    let printed = print(&if options.json { json_text(&found) } else { text(&found, options) });
    report("cni-plugins", &found.unknown);
    Ok(status(printed, !found.unknown.is_empty(), !found.is_clean()))
}

fn text(found: &Inventory, options: &ListOptions) -> String {
    let caches = result_cache::line(&found.caches);
    if found.attached.is_empty() && found.left.is_empty() {
        return format!("no containers\n{caches}");
    }
    let all = [COLUMNS.map(|(heading, _)| heading.to_owned())].into_iter().chain(rows(found, options));
    let shown = |row: [String; 11]| {
        let cells = row.into_iter().zip(COLUMNS).filter(|(_, (_, is_wide))| options.wide || !is_wide);
        cells.map(|(cell, _)| cell).collect()
    };
    let contested = contested::find(found).into_iter().map(|port| one_line(&port.to_string()) + "\n");
    table(&all.map(shown).collect::<Vec<_>>()) + &contested.collect::<String>() + &caches
}

/// The headings of the columns, and whether only the wide table has the column.
const COLUMNS: [(&str, bool); 11] = [
    ("NETWORK", false),
    ("CONTAINER", false),
    ("NAMESPACE", true),
    ("INTERFACE", false),
    ("MAC", true),
    ("HOST-INTERFACES", true),
    ("ADDRESSES", false),
    ("PORTS", false),
    ("PLUGINS", false),
    ("AGE", false),
    ("STATE", false),
];

fn rows(found: &Inventory, options: &ListOptions) -> Vec<[String; 11]> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let attached = found.attached.iter().map(|Attached { cached, file, outcome, .. }| {
        let reason = if let RepairOutcome::Gone(why) = outcome { format!(": {why}") } else { String::new() };
        let state = said(outcome) + if options.wide { &reason } else { "" };
        row(cached, &cached.addresses, Some(now.saturating_sub(file.written())), state, options)
    });
    let left = found.left.iter().map(|left| {
        let age = left.written().map(|written| now.saturating_sub(written));
        row(&left.cached, &left.addresses(), age, said_of_left(left), options)
    });
    attached.chain(left).collect()
}

fn row(
    cached: &Cached,
    addresses: &[IpAddr],
    age: Option<Duration>,
    state: String,
    options: &ListOptions,
) -> [String; 11] {
    let container = cached.at.container.as_str();
    [
        cached.at.network.to_string(),
        if options.full { container.to_owned() } else { shortened(container) },
        cached.netns.clone().unwrap_or_default(),
        cached.at.ifname.to_string(),
        cached.macs.join(","),
        cached.host_interfaces.join(","),
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        cached.ports.iter().map(port).collect::<Vec<_>>().join(","),
        cached.plugins.iter().map(|config| config.kind.as_str()).collect::<Vec<_>>().join(","),
        age.map(aged).unwrap_or_default(),
        state,
    ]
}

/// Lines of cells as columns of equal width, two blanks apart; the last column is not padded. An empty cell is shown as `-`, so that every
/// line has the same number of words that are cells.
fn table(lines: &[Vec<String>]) -> String {
    let shown = |cell: &String| if cell.is_empty() { "-".to_owned() } else { one_line(cell) };
    let lines: Vec<Vec<String>> = lines.iter().map(|cells| cells.iter().map(shown).collect()).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let line = |cells: &Vec<String>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
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
        (Life::Alive | Life::Dead, Source::Records) => "left over: records".to_owned(),
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
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = [["A", "LONG", "C"], ["wide…r", "", "x y"]].map(|line| line.map(str::to_owned).to_vec());
        assert_eq!(table(&lines), "A       LONG  C\nwide…r  -     x y\n");
    }

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
