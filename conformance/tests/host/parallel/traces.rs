//! What is on the host, without random values.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

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

/// Whether a line is a rule of firewall's for an address that a container had which the reference has failed to add. It undoes
/// nothing then, and its DEL, which has no result, removes no rule: `firewall` fails with IPv6 when another container makes the
/// chain at the same moment, after it has made the rules of IPv4; and a failure of `portmap` comes after both.
pub fn is_abandoned(line: &str, abandoned: &[IpAddr]) -> bool {
    let mut words = line.split_once(" -A CNI-FORWARD ").map_or("", |(_, rule)| rule).split(' ');
    words.any(|word| {
        word.split_once('/').is_some_and(|(address, _)| abandoned.iter().any(|one| one.to_string() == address))
    })
}

/// The addresses that have a lease.
pub fn leases() -> Vec<IpAddr> {
    leases_but(|_| true)
}

/// The addresses that a container has leased.
pub fn leases_of(id: &str) -> Vec<IpAddr> {
    leases_but(|path| fs::read_to_string(path).is_ok_and(|lease| lease.lines().next() == Some(id)))
}

/// The leases, without those that are not `wanted`.
fn leases_but(wanted: impl Fn(&Path) -> bool) -> Vec<IpAddr> {
    let Ok(entries) = fs::read_dir(LEASES) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("read the leases").path()).filter(|path| wanted(path));
    let mut addresses: Vec<IpAddr> = paths.filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect();
    addresses.sort();
    addresses
}
