//! What there is of containers on this host, and what is left of those that are gone: what `list` shows and `gc` removes.
//!
//! libcni's cache tells of attachments, host-local's files of addresses. An address that no attachment of the cache has is left over
//! only where it is certain that nobody uses it: not every runtime keeps a cache, and an ADD may be under way.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cni_core::error::Error;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_host_local::{Holder, HostLocal, holders};
use cni_linux::host::LinuxHost;
use cni_linux::inhabitants;
use cni_linux::plugin_calls::RunningCalls;
use cni_linux::result_cache::{self, CacheFile};
use cni_plugin::host::{Host, LinkQuery, NetnsError, NetworkState as _};
use cni_plugin::plan::Ns;

use crate::cache::Cached;
use crate::command_line::Words;
use crate::repair::{self, RepairOutcome, told};

/// How old a lease must be. A younger one may be of an ADD that nobody sees at this moment.
const SETTLED: Duration = Duration::from_secs(60);

/// Why an attachment is not gone though there is nothing at the path of its namespace.
const LIVES_ON: &str = "its namespace has lost its name, and lives on";

fn unsure() -> RepairOutcome {
    RepairOutcome::Skipped("nobody can tell whether its namespace lives on".to_owned())
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Those of the cache, the oldest first.
    pub attached: Vec<Attached>,
    /// Those of which only addresses are left.
    pub left: Vec<Left>,
    /// What could not be found out, and why.
    pub unknown: Vec<String>,
}

/// An attachment of the cache.
#[derive(Debug)]
pub struct Attached {
    pub cached: Cached,
    pub file: CacheFile,
    /// What is missing, or that it is gone.
    pub outcome: RepairOutcome,
}

impl Attached {
    /// Whether the container's namespace is gone, and this is just what is left.
    pub const fn is_gone(&self) -> bool {
        matches!(self.outcome, RepairOutcome::Gone(_))
    }
}

/// A container of which nobody knows, with what it holds.
#[derive(Debug)]
pub struct Left {
    /// What it was, with the configuration of its network.
    pub cached: Cached,
    pub addresses: BTreeSet<IpAddr>,
    /// When the youngest of its leases was written, as time since 1970.
    pub written: Duration,
}

/// Where to look.
#[derive(Clone, Debug)]
pub struct Scope {
    network: Option<String>,
    cache: Option<PathBuf>,
}

impl Scope {
    /// What the command line asks for.
    pub fn of(words: &Words) -> Self {
        let text = |option: &str| words.value(option).map(str::to_owned);
        Self { network: text("--network"), cache: text("--cache-dir").map(PathBuf::from) }
    }

    fn has(&self, at: &Attachment) -> bool {
        self.network.as_deref().is_none_or(|name| name == at.network.as_str())
    }

    fn files(&self) -> io::Result<Vec<CacheFile>> {
        let directory = self.cache.as_deref().unwrap_or(Path::new(result_cache::DIRECTORY));
        match result_cache::read(directory)? {
            Some(files) => Ok(files),
            None if self.cache.is_none() => Ok(Vec::new()),
            None => Err(io::Error::other(format!("{} does not exist", result_cache::results(directory).display()))),
        }
    }
}

impl Inventory {
    /// Looks at the host, and changes nothing.
    ///
    /// # Errors
    /// When the cache cannot be listed.
    pub fn observe(scope: &Scope) -> io::Result<Self> {
        let (mut found, tools) = (Self::default(), repair::Tools::default());
        for file in scope.files()? {
            match repair::read(&file) {
                Ok(cached) if scope.has(&cached.at) => {
                    let outcome = repair::examine(&cached, &file, &tools);
                    found.attached.push(Attached { cached, file, outcome });
                }
                Ok(_) => {}
                Err(error) => found.unknown.push(format!("{}: {}", file.path.display(), told(&error))),
            }
        }
        if let Err(error) = found.compare_with_living() {
            found.unknown.push(format!("what living namespaces use: {}", told(&error)));
        }
        Ok(found)
    }

    /// Whether something is missing or left over.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty() && self.attached.iter().all(|one| matches!(one.outcome, RepairOutcome::Complete))
    }

    /// Whoever seems to be gone is asked for in every namespace that lives: a runtime may lose the name of one, and no
    /// runtime need keep the cache.
    fn compare_with_living(&mut self) -> Result<(), Error> {
        let candidates = self.candidates()?;
        let gone = self.attached.iter().filter(|one| one.is_gone()).map(|one| &one.cached);
        let Some(any) = gone.chain(candidates.iter().map(|one| &one.cached)).next() else { return Ok(()) };
        let in_use = match host_for(any).and_then(|mut host| InUse::observe(&mut host)) {
            Ok(in_use) => in_use,
            Err(error) => {
                self.attached.iter_mut().filter(|one| one.is_gone()).for_each(|one| one.outcome = unsure());
                return Err(error);
            }
        };
        let others = self.addresses_of_others();
        for one in self.attached.iter_mut().filter(|one| one.is_gone()) {
            let own = one.cached.addresses.iter().filter(|address| !others.contains(address));
            if in_use.has(&one.cached, own) {
                one.outcome = RepairOutcome::Skipped(LIVES_ON.to_owned());
            }
        }
        let calls = RunningCalls::observe();
        let is_left = |one: &Left| {
            one.is_settled() && !in_use.has(&one.cached, &one.addresses) && !calls.contains(&one.cached.at)
        };
        self.left = candidates.into_iter().filter(is_left).collect();
        Ok(())
    }

    /// The addresses of attachments that are there. After a reboot they may have been those of containers from before.
    fn addresses_of_others(&self) -> BTreeSet<IpAddr> {
        let there = self.attached.iter().filter(|one| !one.is_gone());
        there.flat_map(|one| one.cached.addresses.iter().copied()).collect()
    }

    /// The holders of leases that the cache does not tell of.
    fn candidates(&self) -> Result<Vec<Left>, Error> {
        let mut candidates: BTreeMap<[String; 3], Left> = BTreeMap::new();
        let known: BTreeSet<_> = self.attached.iter().map(|one| key(&one.cached.at)).collect();
        for (network, cached) in self.networks() {
            for holder in holders_of(cached)? {
                let Some(at) = owner(&network, &holder) else { continue };
                if known.contains(&key(&at)) {
                    continue;
                }
                let left = candidates.entry(key(&at)).or_insert_with(|| Left::of(cached.of_another(at)));
                left.addresses.insert(holder.address);
                left.written = left.written.max(holder.written);
            }
        }
        Ok(candidates.into_values().collect())
    }

    /// Each network of the cache, with its newest attachment.
    fn networks(&self) -> Vec<(NetworkName, &Cached)> {
        let mut networks: Vec<(NetworkName, &Cached)> = Vec::new();
        for Attached { cached, .. } in self.attached.iter().rev() {
            if networks.iter().all(|(name, _)| *name != cached.at.network) {
                networks.push((cached.at.network.clone(), cached));
            }
        }
        networks
    }
}

impl Left {
    const fn of(cached: Cached) -> Self {
        Self { cached, addresses: BTreeSet::new(), written: Duration::ZERO }
    }

    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(self.written) > SETTLED
    }
}

fn key(at: &Attachment) -> [String; 3] {
    [at.network.to_string(), at.container.to_string(), at.ifname.to_string()]
}

/// Leases name no network, but each network has its own.
fn owner(network: &NetworkName, holder: &Holder) -> Option<Attachment> {
    let container = ContainerId::parse(&holder.container).ok()?;
    Some(Attachment { network: network.clone(), container, ifname: IfName::parse(holder.ifname.as_deref()?).ok()? })
}

fn holders_of(cached: &Cached) -> Result<Vec<Holder>, Error> {
    let mut found = Vec::new();
    for config in cached.plugins.iter().filter(|config| config.ipam() == Some("host-local")) {
        found.extend(holders(&cached.question(config, &HostLocal)?)?);
    }
    Ok(found)
}

/// A host for questions that need no request, which is used for delegation only.
fn host_for(cached: &Cached) -> Result<LinuxHost, Error> {
    let config = cached.plugins.first().expect("a list has a plugin: cache.rs refuses others");
    LinuxHost::new(&cached.question(config, &HostLocal)?)
}

/// What living namespaces use.
#[derive(Debug, Default)]
struct InUse {
    addresses: BTreeSet<IpAddr>,
    /// The aliases of links that lead into namespaces that live.
    aliases: BTreeSet<String>,
}

impl InUse {
    /// Looks into every namespace that a process is in, that has a name, or that a veth of the host leads to.
    fn observe(host: &mut LinuxHost) -> Result<Self, Error> {
        let mut found = Self::default();
        for link in host.links(Ns::Host, LinkQuery::Kind("veth"))? {
            if let Some(addresses) = host.peer_addresses(&link)? {
                found.addresses.extend(addresses.iter().map(|one| one.cidr.address()));
                found.aliases.extend(link.alias);
            }
        }
        for path in inhabitants::paths().map_err(|source| InventoryError { source })? {
            match host.enter(&path) {
                Ok(()) => {}
                Err(NetnsError::Gone { .. }) => continue,
                Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
            }
            let addresses = host.addresses(Ns::Container, None, None)?;
            found.addresses.extend(addresses.iter().map(|one| one.cidr.address()));
        }
        Ok(found)
    }

    fn has<'a>(&self, cached: &Cached, addresses: impl IntoIterator<Item = &'a IpAddr>) -> bool {
        addresses.into_iter().any(|address| self.addresses.contains(address))
            || self.aliases.iter().any(|alias| cni_interface::alias::may_name(alias, &cached.at))
    }
}

/// The namespaces of the machine cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error("failed to list the network namespaces of this machine")]
struct InventoryError {
    #[source]
    source: io::Error,
}

impl cni_core::error::Failure for InventoryError {
    fn code(&self) -> cni_core::error::Code {
        cni_core::error::Code::Io
    }
}
