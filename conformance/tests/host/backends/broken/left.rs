//! What is there of a container.

use std::fs;
use std::path::Path;

use crate::backends::backend_host::{BackendHost, ServingContainer};
use crate::backends::network::LEASES;

const RECORDS: &str = "/run/cni/.cni-plugins-rs";

/// The kinds of things of a container that are there.
pub fn of(machine: &BackendHost, attached: &ServingContainer) -> Vec<&'static str> {
    let id = attached.attachment.container_id.as_str();
    let addresses: Vec<String> = machine.families().iter().map(|family| attached.ip(family).to_string()).collect();
    let names = |line: &str| addresses.iter().any(|address| has_word(line, address));
    let (nat, filter, nftables) = (tables(machine, "nat"), tables(machine, "filter"), nftables(machine));
    let dnat = format!("dnat name: \"n1\" id: \"{id}\"");
    let masquerade = format!("name: \"n1\" id: \"{id}\"");
    let found = [
        ("link", machine.sandbox().sh("ip -o link show").contains(&format!(":{id}:"))),
        (
            "masquerade",
            nat.lines().any(|line| line.contains(&masquerade) && !line.contains(&dnat))
                || nftables.lines().any(|line| line.contains(&format!("id: {id}\""))),
        ),
        ("ports", nat.contains(&dnat) || nftables.lines().any(|line| line.contains(&format!("comment \"{id}\"")))),
        (
            "filter",
            filter.lines().any(names)
                || nftables.lines().any(|line| line.contains("elements") && names(line))
                || sources(machine).iter().any(|source| names(source)),
        ),
        ("leases", addresses.iter().any(|address| Path::new(LEASES).join(address).exists())),
        ("records", records().iter().any(|(name, text)| names(name) || has_word(text, id))),
    ];
    found.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
}

/// All but the marks of DELs that are under way, which go with the link.
fn records() -> Vec<(String, String)> {
    files(Path::new(RECORDS)).into_iter().filter(|(path, _)| !path.contains("/deleting/")).collect()
}

/// Requires that nothing is left of any container.
#[track_caller]
pub fn assert_nothing_of_anybody(machine: &BackendHost) {
    let rules = [tables(machine, "nat"), tables(machine, "filter"), nftables(machine)].concat();
    for word in ["id: \"", "comment \"kept", "comment \"goes", "comment \"scout", "10.88.0.2", "10.88.0.3", "10.88.0.4"]
    {
        assert!(!rules.contains(word), "{word}: {rules}");
    }
    let links = machine.sandbox().sh("ip -o link show");
    assert!(!links.contains("alias cni:"), "{links}");
    let left = files(Path::new(RECORDS)).into_iter().filter(|(name, _)| !name.ends_with(".lock"));
    assert_eq!(left.collect::<Vec<_>>(), []);
    let leases = files(Path::new(LEASES)).into_iter().filter(|(path, _)| is_lease(path));
    assert_eq!(leases.collect::<Vec<_>>(), []);
}

fn is_lease(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.parse::<std::net::IpAddr>().is_ok())
}

/// The tables that are not those of iptables.
fn nftables(machine: &BackendHost) -> String {
    machine.state().section("nftables").join("\n")
}

fn tables(machine: &BackendHost, table: &str) -> String {
    let save = |program| machine.sandbox().sh(&format!("{program} -t {table}"));
    ["iptables-save", "ip6tables-save"].map(save).concat().replace('\\', "")
}

fn sources(machine: &BackendHost) -> Vec<String> {
    match machine.backend.of_firewall() {
        "firewalld" => machine.machine().sources("trusted"),
        _ => Vec::new(),
    }
}

/// The paths and contents of all files below a folder.
fn files(folder: &Path) -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let of = |path: &Path| {
        let name = path.to_str().expect("text").to_owned();
        (name, String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned())
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![of(&path)] }).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || [':', '.'].contains(&c))).any(|part| part == word)
}
