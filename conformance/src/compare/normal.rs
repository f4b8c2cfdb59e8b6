//! Removes random values from snapshots and results: names of veth ends and MAC addresses.

use super::accepted::form_of_result;
use crate::reference::Level;
use crate::{Chain, Namespace, Network, Sandbox, State};

/// Takes a snapshot as sorted lines. The host's ends of veth pairs are called `port0`, `port1` … in the order of their
/// creation.
pub fn snapshot(sandbox: &Sandbox, containers: &[&Namespace], kept: &str) -> Vec<String> {
    // The reference keeps nothing of the chains.
    let state = State::capture(sandbox, containers).without("handles");
    let mut lines = of_tables(state.lines());
    for namespace in [sandbox.host()].into_iter().chain(containers.iter().copied()) {
        lines.extend(details(namespace));
    }
    let ports = ports(sandbox);
    let mut lines: Vec<String> = lines.iter().map(|line| normal(line, &ports, kept)).collect();
    lines.sort();
    lines
}

/// Puts the name of its table before each line of nftables, so that it survives sorting.
fn of_tables(lines: Vec<String>) -> Vec<String> {
    let mut table = String::new();
    let mut name = |line: String| match line.strip_prefix("nftables: ") {
        Some(rule) => {
            if let Some(begins) = rule.strip_prefix("table ") {
                begins.trim_end_matches(" {").clone_into(&mut table);
            }
            format!("nftables {table}: {}", rule.trim())
        }
        None => line,
    };
    lines.into_iter().map(&mut name).collect()
}

/// Details of addresses and routes that a snapshot does not show.
fn details(namespace: &Namespace) -> Vec<String> {
    let name = namespace.name();
    let network = Network::observe(namespace);
    let addresses = network.addresses.iter().filter(|address| !address.is_link_local());
    let addresses = addresses.map(|address| format!("{name} broadcast: {address} {:?}", address.broadcast));
    let routes = network.routes.iter().filter(|route| !route.destination.starts_with("fe80:"));
    addresses.chain(routes.map(|route| format!("{name} scope: {route} {}", route.scope))).collect()
}

/// Returns what the plugins printed, line by line.
pub fn printed(sandbox: &Sandbox, level: Level, version: &str, chain: &Chain, kept: &str) -> Vec<String> {
    let ports = ports(sandbox);
    let mut lines = Vec::new();
    for (plugin, outcome) in chain.steps() {
        let text = form_of_result(level, version, outcome.stdout());
        lines.extend(text.lines().map(|line| normal(&format!("{plugin} prints in {version}: {line}"), &ports, kept)));
    }
    lines
}

fn ports(sandbox: &Sandbox) -> Vec<String> {
    let links = Network::observe(sandbox.host()).links;
    links.into_iter().map(|link| link.name).filter(|name| is_random(name)).collect()
}

fn is_random(name: &str) -> bool {
    name.strip_prefix("veth").is_some_and(|rest| rest.len() == 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Replaces names of ports by their numbers, and MAC addresses that do not stand in `kept`.
fn normal(line: &str, ports: &[String], kept: &str) -> String {
    let mut line = line.to_owned();
    for (number, port) in ports.iter().enumerate() {
        line = line.replace(port, &format!("port{number}"));
    }
    let mut place = 0;
    while place + 12 <= line.len() {
        // A link that is gone by now may still be named, in an error.
        if line.get(place..place + 12).is_some_and(is_random) {
            line.replace_range(place..place + 12, "port");
        }
        place += 1;
    }
    let mut place = 0;
    while let Some(mac) = line.get(place..place + 17) {
        if is_mac(mac) && !kept.contains(mac) && mac != "00:00:00:00:00:00" {
            line.replace_range(place..place + 17, "MAC");
        }
        place += 1;
    }
    line
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
