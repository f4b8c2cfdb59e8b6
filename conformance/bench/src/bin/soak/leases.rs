//! The files of host-local.

use std::fs::{self, File};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::networks::Network;

/// Older than what `gc` takes for an ADD under way.
const OLD: Duration = Duration::from_secs(7200);

/// Makes the leases of some containers look old.
pub fn age(network: &Network, is_meant: impl Fn(&str) -> bool) {
    let Some(entries) = network.leases.and_then(|folder| fs::read_dir(folder).ok()) else { return };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_lease = |name: &str| name.parse::<IpAddr>().is_ok();
    for path in paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_lease)) {
        // It may be gone by now.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if is_meant(text.lines().next().unwrap_or_default().trim())
            && let Ok(file) = File::options().write(true).open(&path)
        {
            drop(file.set_modified(SystemTime::now() - OLD));
        }
    }
}
