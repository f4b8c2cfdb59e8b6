//! Kernel settings that plugins may write.
//!
//! They are read in a thread inside the namespace: `/proc/sys/net` shows every reader the settings of its own
//! namespace.

use std::fs;
use std::path::Path;

use crate::namespace::Namespace;

const GLOBAL: [&str; 3] =
    ["net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"];

const PER_LINK: [(&str, &[&str]); 2] = [
    ("net/ipv4/conf", &["arp_notify", "forwarding", "route_localnet", "rp_filter"]),
    ("net/ipv6/conf", &["accept_dad", "accept_ra", "disable_ipv6", "forwarding"]),
];

/// Returns one line per setting, `key = value`.
pub(super) fn read(namespace: &Namespace) -> Vec<String> {
    namespace.run(|| {
        let mut lines: Vec<String> = GLOBAL.iter().filter_map(|key| line(key)).collect();
        for (folder, names) in PER_LINK {
            for link in links(folder) {
                lines.extend(names.iter().filter_map(|name| line(&format!("{folder}/{link}/{name}"))));
            }
        }
        lines
    })
}

/// Returns `None` for a setting that this kernel does not have, or whose link was just deleted.
fn line(key: &str) -> Option<String> {
    let path = Path::new("/proc/sys").join(key);
    match fs::read_to_string(&path) {
        Ok(value) => Some(format!("{key} = {}", value.trim_end())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("read {}: {error}", path.display()),
    }
}

fn links(folder: &str) -> Vec<String> {
    let path = Path::new("/proc/sys").join(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("list {}: {error}", path.display()));
    let names = entries.map(|entry| entry.expect("read a folder's list").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
