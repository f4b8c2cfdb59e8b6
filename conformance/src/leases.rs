//! The leases of host-local: files of a network's folder whose names are addresses.

use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;

/// Returns the leased addresses of a network, in order; empty before its first ADD.
///
/// # Panics If the folder exists and cannot be read.
pub fn of_network(data_dir: &str, network: &str) -> Vec<String> {
    let folder = Path::new(data_dir).join(network);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => panic!("list {}: {error}", folder.display()),
    };
    let names = entries.map(|entry| entry.expect("read a folder's list").file_name().to_string_lossy().into_owned());
    let mut addresses: Vec<IpAddr> = names.filter_map(|name| name.parse().ok()).collect();
    addresses.sort();
    addresses.iter().map(ToString::to_string).collect()
}
