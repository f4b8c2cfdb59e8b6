//! The lease files of host-local.

use std::fs::{self, File};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::networks::NetworkTemplate;

/// `gc` treats younger leases as those of an unfinished ADD.
const OLD: Duration = Duration::from_secs(7200);

/// Backdates the leases of some containers.
pub fn age(network: &NetworkTemplate, selects: impl Fn(&str) -> bool) {
    let Some(entries) = network.leases.as_ref().and_then(|folder| fs::read_dir(folder).ok()) else { return };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_lease = |name: &str| name.parse::<IpAddr>().is_ok();
    for path in paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_lease)) {
        // A concurrent DEL may have removed it.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if selects(text.lines().next().unwrap_or_default().trim())
            && let Ok(file) = File::options().write(true).open(&path)
        {
            drop(file.set_modified(SystemTime::now() - OLD));
        }
    }
}
