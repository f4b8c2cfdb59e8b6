//! What is on the host, without random values.

use std::collections::BTreeMap;

use cni_conformance::State;

use crate::backend_host::BackendHost;

/// Returns all lasting lines of the host's state, in order and without MAC addresses.
pub fn observe(host: &BackendHost) -> Vec<String> {
    let lines = State::of_host(host.sandbox()).lasting();
    let mut lines: Vec<String> =
        lines.iter().map(|line| line.split(" mac ").next().unwrap_or(line).to_owned()).collect();
    lines.sort();
    lines
}

/// Rules that are there more than once in their chain.
pub fn repeated_rules(host: &BackendHost) -> Vec<String> {
    let mut counted = BTreeMap::<String, usize>::new();
    let (mut table, mut chain) = (String::new(), String::new());
    for line in State::of_host(host.sandbox()).lines() {
        if line.starts_with("nftables: table") {
            table.clone_from(&line);
        } else if line.starts_with("nftables: \tchain") {
            chain.clone_from(&line);
        } else if line.contains(": -A ") {
            *counted.entry(line).or_default() += 1;
        } else if line.starts_with("nftables: \t\t") {
            *counted.entry(format!("{table} {chain} {line}")).or_default() += 1;
        }
    }
    counted.into_iter().filter(|(_, times)| *times > 1).map(|(line, _)| line).collect()
}
