//! The addresses that host-local keeps for networks: where, for which configurations, and who holds them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cni_core::error::Error;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_core::request::Request;
use cni_host_local::{Holder, HostLocal, Range, holders, lease_directory, ranges};

use crate::cache::{Cached, PluginConfig};
use crate::output::error_line;

/// A directory of leases of a network. A network has several if its configuration was changed.
#[derive(Debug)]
pub struct Pool {
    pub network: NetworkName,
    pub directory: PathBuf,
    /// The newest attachment whose configuration names the directory.
    pub cached: Cached,
    pub holders: Vec<Holder>,
    /// A request for each configuration that names it and can be read, the newest first.
    requests: Vec<Request>,
}

impl Pool {
    /// Reads the leases of every network of the given attachments, which come the newest first. Describes in `problems` the
    /// networks whose leases cannot be read.
    pub fn observe<'a>(attached: impl Iterator<Item = &'a Cached>, problems: &mut Vec<String>) -> Vec<Self> {
        let (mut pools, mut seen) = (Vec::new(), BTreeSet::new());
        for cached in attached {
            let configs = host_local_configs(cached).unwrap_or_else(|error| {
                problems.push(about(&cached.at.network, &error));
                Vec::new()
            });
            for config in configs {
                if seen.insert((cached.at.network.as_str(), config.address_source()))
                    && let Err(error) = add(cached, &config, &mut pools)
                {
                    problems.push(about(&cached.at.network, &error));
                }
            }
        }
        pools
    }

    /// The ranges of all configurations, and what is wrong with a configuration that has none.
    pub fn ranges(&self) -> (Vec<Range>, Vec<String>) {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for request in &self.requests {
            match ranges(request) {
                Ok(ranges) => found.extend(ranges),
                Err(error) => problems.push(about(&self.network, &error)),
            }
        }
        (found, problems)
    }
}

/// The configurations of an attachment's list by which host-local gives it addresses, also that of a plugin that flannel calls.
///
/// # Errors
/// As [`Cached::resolved`].
fn host_local_configs(cached: &Cached) -> Result<Vec<PluginConfig>, Error> {
    let cached = cached.resolved()?.into_owned();
    Ok(cached.plugins.into_iter().filter(|config| config.ipam() == Some("host-local")).collect())
}

fn add(cached: &Cached, config: &PluginConfig, pools: &mut Vec<Pool>) -> Result<(), Error> {
    let request = cached.question(config, &HostLocal)?;
    let (network, directory) = (&cached.at.network, lease_directory(&request)?);
    // A plugin of others may replace what host-local cannot read, such as Calico `usePodCidr`.
    let is_known = cni_builtin::plugin(&config.kind).is_some() || ranges(&request).is_ok();
    match pools.iter_mut().find(|pool| pool.network == *network && pool.directory == directory) {
        Some(pool) => pool.requests.extend(is_known.then_some(request)),
        None => {
            let (network, holders) = (network.clone(), holders(&request)?);
            let requests = is_known.then_some(request).into_iter().collect();
            pools.push(Pool { network, directory, cached: cached.clone(), holders, requests });
        }
    }
    Ok(())
}

fn about(network: &NetworkName, error: &Error) -> String {
    format!("network {network}: {}", error_line(error))
}

/// The attachment that holds an address. Leases name no network, but each network has its own.
pub fn owner(network: &NetworkName, holder: &Holder) -> Option<Attachment> {
    let container = ContainerId::parse(&holder.container).ok()?;
    Some(Attachment { network: network.clone(), container, ifname: IfName::parse(holder.ifname.as_deref()?).ok()? })
}

/// The holders of addresses of all configurations of an attachment's list by which host-local gives addresses.
///
/// # Errors
/// When they cannot be read.
pub fn holders_of(cached: &Cached) -> Result<Vec<Holder>, Error> {
    let mut found = Vec::new();
    for config in host_local_configs(cached)? {
        found.extend(holders(&cached.question(&config, &HostLocal)?)?);
    }
    Ok(found)
}
