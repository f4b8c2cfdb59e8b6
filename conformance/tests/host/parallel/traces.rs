//! What is on the host, without random values.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

use cni_conformance::State;

use crate::parallel::host::{LEASES, ParallelHost};

/// What two containers have in common.
const OF_A_CONTAINER: [&str; 4] = ["10.88.", "fd00:88:", "cnitool-", "CNI-DN-"];

/// Lines and how often each is there.
pub type Lines = BTreeMap<String, usize>;

/// Returns all lines of the host's state.
pub fn observe(host: &ParallelHost) -> Lines {
    let mut lines = Lines::new();
    for line in State::of_host(host.sandbox()).lines().iter().filter_map(|line| settled(line)) {
        *lines.entry(line).or_default() += 1;
    }
    lines
}

/// A setting of a bridge that our plugins have made.
const OURS: &str = "host settings: net/ipv6/conf/br0/accept_dad ";

/// Without MAC addresses, where the next address is looked for, the age of an index, what locks leave, and what tells
/// who has made the bridge.
fn settled(line: &str) -> Option<String> {
    if line.starts_with(OURS) {
        return None;
    }
    if let Some(file) = line.strip_prefix("files: ") {
        let changes = ["last_reserved_ip", ".cni-plugins-rs/stamp", ".lock "].iter().any(|part| file.contains(part));
        return (!changes && !file.starts_with("/run/cni/.cni-plugins-rs 4")).then(|| line.to_owned());
    }
    Some(line.split(" mac ").next().unwrap_or(line).to_owned())
}

/// Rules that are there more than once in their chain: those of a container, and those that all share.
pub fn repeated_rules(host: &ParallelHost) -> (Vec<String>, Vec<String>) {
    let mut counted = Lines::new();
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
    let repeated = counted.into_iter().filter(|(_, times)| *times > 1).map(|(line, _)| line);
    repeated.partition(|line| OF_A_CONTAINER.iter().any(|part| line.contains(part)))
}

/// Whether a line is a record: of an attachment, of the owner of an address or host port, or of a masquerade. The reference's DEL of
/// our containers leaves records to GC, and they are not compared.
pub fn is_claim(line: &str) -> bool {
    let Some(file) = line.strip_prefix("files: /run/cni/.cni-plugins-rs/") else { return false };
    let (path, _) = file.split_once(' ').expect("a file has a mode");
    ["/attachments", "/claims", "/ports", "/masquerades"].iter().any(|kind| path.contains(kind)) || !path.contains('/')
}

/// The addresses that have a lease.
pub fn leases() -> Vec<IpAddr> {
    let Ok(entries) = fs::read_dir(LEASES) else { return Vec::new() };
    let names = entries.map(|entry| entry.expect("read the leases").file_name());
    let mut addresses: Vec<IpAddr> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    addresses.sort();
    addresses
}
