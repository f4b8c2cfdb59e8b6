//! The containers of this host, and what dead containers have left: what `list` shows and `gc` removes.
//!
//! libcni's cache has the attachments, host-local's files the addresses, and our records what ADD has made. `life.rs` decides
//! for all of them whether the container is alive.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::plugin_calls::RunningCalls;
use crate::result_cache::{self, CacheFile};
use crate::work_share::{LEAST_SHARE, by_threads, read_ahead};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};
use cni_core::error::Error;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
use cni_host_local::{Holder, HostLocal, holders};
use cni_linux::nftables::KeptTables;
use cni_plugin::namespace::Life;
use cni_plugin::owner::RecordedOwner;
use cni_plugin::share::Share;

use crate::cache::Cached;
use crate::cache::reader::CacheReader;
use crate::calls::can_work_on;
use crate::error_line::error_line;
use crate::life::{Judge, LIVES_ON};
use crate::pools::{Pool, host_local_configs};
use crate::port_order::{self, PortOrder};
use crate::repair::{self, RepairOutcome};
use cni_builtin::PLUGINS;

/// How old a lease must be to count as left over. A younger one may belong to an ADD that has not ended, so that the cache does
/// not have it yet.
const SETTLED: Duration = Duration::from_secs(60);

/// How closely the living are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Whether they live.
    Lives,
    /// What is missing of their rules as well.
    Rules,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Those of the cache, the oldest first.
    pub attached: Vec<Attached>,
    /// Those that the cache does not have, and that are dead or unclear.
    pub left: Vec<Leftover>,
    /// The addresses of the networks in the cache.
    pub pools: Vec<Pool>,
    /// For each port that several attachments ask for, in which order they get it.
    pub port_order: PortOrder,
    /// What could not be found out, and why.
    pub unknown: Vec<String>,
}

/// An attachment of the cache.
#[derive(Debug)]
pub struct Attached {
    pub cached: Cached,
    pub file: CacheFile,
    pub life: Life,
    /// What is missing, or that it is gone.
    pub outcome: RepairOutcome,
}

/// A container that is not in the cache.
#[derive(Debug)]
pub struct Leftover {
    /// What it was, with the configuration of its network.
    pub cached: Cached,
    pub source: Source,
    /// Where the runtime would write it into the cache.
    file: PathBuf,
    /// [`Life::Dead`] or [`Life::Unknown`], never [`Life::Alive`].
    pub life: Life,
}

/// Where a container was found that is not in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Leases {
        addresses: BTreeSet<IpAddr>,
        /// When the youngest was written, as time since 1970.
        written: Duration,
    },
    /// The record of an ADD.
    Record,
    /// Records that `repair` wrote when it put back rules of a container that other projects' plugins had made.
    Owner(RecordedOwner),
}

/// Where to look.
#[derive(Args, Clone, Debug, Default)]
pub struct Scope {
    /// only attachments to this network
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other, value_parser = NonEmptyStringValueParser::new())]
    network: Option<String>,
    /// the runtime's cache directory, which contains a folder "results"; default /var/lib/cni
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    cache_dir: Option<PathBuf>,
}

impl Scope {
    /// Attachments to one network, or to all, in the cache of a runtime.
    pub const fn new(network: Option<String>, cache_dir: Option<PathBuf>) -> Self {
        Self { network, cache_dir }
    }

    fn has(&self, at: &Attachment) -> bool {
        self.network.as_deref().is_none_or(|name| name == at.network.as_str())
    }

    fn files(&self) -> io::Result<Vec<CacheFile>> {
        let directory = self.directory();
        match result_cache::list(directory)? {
            Some(files) => Ok(files),
            None if self.cache_dir.is_none() => Ok(Vec::new()),
            None => Err(io::Error::other(format!("{} does not exist", result_cache::results(directory).display()))),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.cache_dir.as_deref().unwrap_or(Path::new(result_cache::DIRECTORY))
    }
}

impl Inventory {
    /// Looks at the host, and changes nothing.
    ///
    /// # Errors
    /// When the cache cannot be listed.
    pub fn observe(scope: &Scope, depth: Depth) -> io::Result<Self> {
        let (files, tables) = (scope.files()?, KeptTables::default());
        let is_ahead = depth == Depth::Rules && files.len() > LEAST_SHARE;
        Ok(thread::scope(|threads| {
            if is_ahead {
                read_ahead(&tables, threads);
            }
            Self::of(files, scope, depth, &tables)
        }))
    }

    fn of(files: Vec<CacheFile>, scope: &Scope, depth: Depth, tables: &KeptTables) -> Self {
        let (mut found, mut read, mut reader) = (Self::default(), Vec::new(), CacheReader::default());
        for mut file in files {
            match repair::read(&mut file, &mut reader) {
                Ok(Some(cached)) if scope.has(&cached.at) => read.push((cached, file)),
                Ok(_) => {}
                Err(error) => found.unknown.push(format!("{}: {}", file.path.display(), error_line(&error))),
            }
        }
        let judged = Judge::new(scope.directory()).and_then(|mut judge| {
            found.attached = attached(read, &mut judge);
            let is_dead =
                |at: &Attachment| found.attached.iter().any(|one| one.cached.at == *at && one.life == Life::Dead);
            found.port_order = port_order::order(found.attached.iter().map(|one| &one.cached), |port| {
                judge.owners_of_port(port, is_dead)
            });
            found.pools = Pool::observe(found.attached.iter().rev().map(|one| &one.cached), &mut found.unknown);
            found.look_for_others(scope, &mut judge)
        });
        if let Err(error) = judged {
            found.unknown.push(error_line(&error));
        }
        // Last, since the tables are being read meanwhile.
        if depth == Depth::Rules {
            examine(&mut found.attached, tables);
        }
        found
    }

    /// Whether nothing is missing, left over, or unclear. What is in `unknown` does not count.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty() && self.attached.iter().all(|one| matches!(one.outcome, RepairOutcome::Complete))
    }

    /// Finds containers by leases and records that are not in the cache: not every runtime keeps it.
    fn look_for_others(&mut self, scope: &Scope, judge: &mut Judge) -> Result<(), Error> {
        let mut known: BTreeSet<_> = self.attached.iter().map(|one| key(&one.cached.at)).collect();
        let (leased, mut calls) = (self.leased(&known), None);
        for (cached, addresses, written) in leased {
            known.insert(key(&cached.at));
            if !is_settled(written) {
                continue;
            }
            let mut life = judge.life_of_lease(&cached.at, &addresses, written);
            let calls = calls.get_or_insert_with(RunningCalls::observe);
            if life != Life::Alive {
                let process = calls.find(&cached.at, |name| can_work_on(&cached, name));
                life = process.map_or(life, |process| Life::Unknown(format!("{process} works on it")));
                let file = result_cache::file(scope.directory(), &cached.at);
                self.left.push(Leftover { cached, source: Source::Leases { addresses, written }, file, life });
            }
        }
        let recorded = judge.recorded_but(self.attached.iter().map(|one| &one.cached.at))?;
        for at in recorded.into_iter().filter(|at| scope.has(at)) {
            if known.insert(key(&at)) && judge.life_by_record(&at) == Some(Life::Dead) {
                let life = judge.life_despite_records(&at);
                self.push_recorded(scope, at, Source::Record, life);
            }
        }
        let owners = judge.owners_but(&self.attached.iter().map(|one| &one.cached.at).collect::<Vec<_>>())?;
        for owner in owners.into_iter().filter(|owner| scope.has(&owner.at)) {
            if !known.contains(&key(&owner.at))
                && judge.life_by_records(&owner.at, owner.home.as_ref()) == Some(Life::Dead)
            {
                known.insert(key(&owner.at));
                let life = match self.find_successor(&owner, judge) {
                    Some(reason) => Life::Unknown(reason),
                    None => judge.life_despite_records(&owner.at),
                };
                self.push_recorded(scope, owner.at.clone(), Source::Owner(owner), life);
            }
        }
        Ok(())
    }

    /// Names the container that has an address of a dead one by now, if our bridge has made its interface, and another project's firewall
    /// its rules. That firewall has also removed the rules of the dead one, but not our records. Rules of both look the same.
    fn find_successor(&self, owner: &RecordedOwner, judge: &mut Judge) -> Option<String> {
        let has_firewall = |one: &&Attached| one.cached.plugins.iter().any(|config| config.kind == "firewall");
        self.attached.iter().filter(|one| one.life != Life::Dead).filter(has_firewall).find_map(|one| {
            let address = one.cached.addresses.iter().find(|address| owner.addresses.contains(address))?;
            judge.record(&one.cached.at)?;
            Some(format!(
                "{address} belongs to container {} now, and the rules may be its own",
                one.cached.at.container
            ))
        })
    }

    fn push_recorded(&mut self, scope: &Scope, at: Attachment, source: Source, life: Life) {
        let file = result_cache::file(scope.directory(), &at);
        let cached = self.recorded(at);
        self.left.push(Leftover { cached, source, file, life });
    }

    /// The holders of leases that are not known, with their addresses and the time of the youngest.
    fn leased(&self, known: &BTreeSet<[String; 3]>) -> Vec<(Cached, BTreeSet<IpAddr>, Duration)> {
        let mut found: BTreeMap<[String; 3], (Cached, BTreeSet<IpAddr>, Duration)> = BTreeMap::new();
        for Pool { network, cached, holders, .. } in &self.pools {
            for holder in holders {
                let Some(at) = owner(network, holder) else { continue };
                if known.contains(&key(&at)) {
                    continue;
                }
                let new = || (cached.of_another(at.clone()), BTreeSet::new(), Duration::ZERO);
                let (_, addresses, written) = found.entry(key(&at)).or_insert_with(new);
                addresses.insert(holder.address);
                *written = holder.written.max(*written);
            }
        }
        found.into_values().collect()
    }

    /// Describes an attachment that has left only records. If its network is known, the plugins of its list are called; our
    /// plugins that need only names to find what they have made are called in any case.
    fn recorded(&self, at: Attachment) -> Cached {
        let of_rules = PLUGINS.iter().filter(|plugin| [Share::Rules, Share::Properties].contains(&plugin.share()));
        let mut cached = Cached::of_record(at.clone(), of_rules.map(|plugin| plugin.kind()));
        if let Some((_, known)) = self.networks().into_iter().find(|(network, _)| *network == at.network) {
            let listed = known.of_another(at).plugins;
            cached.plugins.retain(|config| listed.iter().all(|one| one.kind != config.kind));
            cached.plugins.splice(0..0, listed);
        }
        cached
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

fn attached(read: Vec<(Cached, CacheFile)>, judge: &mut Judge) -> Vec<Attached> {
    let lives = judge.lives(&read.iter().map(|(cached, _)| cached).collect::<Vec<_>>());
    let attach = |((cached, file), life): ((Cached, CacheFile), Life)| {
        let outcome = match &life {
            Life::Dead => RepairOutcome::Gone("its network namespace has ended".to_owned()),
            Life::Unknown(reason) => RepairOutcome::Skipped(reason.clone()),
            Life::Alive => RepairOutcome::Complete,
        };
        Attached { cached, file, life, outcome }
    };
    read.into_iter().zip(lives).map(attach).collect()
}

/// Looks for missing rules of many attachments.
fn examine(attached: &mut [Attached], tables: &KeptTables) {
    let tools = || repair::Tools::for_looking(tables);
    by_threads(attached, tools, |one, tools| one.examine(tools));
}

impl Attached {
    /// Looks for missing rules of an attachment that lives.
    pub fn examine(&mut self, tools: &repair::Tools) {
        if self.life == Life::Alive {
            let outcome = repair::examine(&self.cached, &self.file, tools);
            // Without its file the runtime has deleted it meanwhile.
            let is_lost = matches!(outcome, RepairOutcome::Gone(_)) && !matches!(self.file.is_current(), Ok(false));
            self.outcome = if is_lost { RepairOutcome::Skipped(LIVES_ON.to_owned()) } else { outcome };
        }
    }
}

impl Leftover {
    /// The addresses that are leased to it.
    pub fn addresses(&self) -> Vec<IpAddr> {
        match &self.source {
            Source::Leases { addresses, .. } => addresses.iter().copied().collect(),
            Source::Record | Source::Owner(_) => Vec::new(),
        }
    }

    /// When the youngest lease was written, as time since 1970.
    pub const fn written(&self) -> Option<Duration> {
        match &self.source {
            Source::Leases { written, .. } => Some(*written),
            Source::Record | Source::Owner(_) => None,
        }
    }

    /// Whether it lives by now, as far as records tell.
    pub fn life_by_records(&self, judge: &mut Judge) -> Option<Life> {
        let (at, home) = match &self.source {
            Source::Owner(RecordedOwner { at, home, addresses: _ }) => (at, home.as_ref()),
            Source::Record => (&self.cached.at, None),
            Source::Leases { .. } => return judge.life_by_record(&self.cached.at),
        };
        let life = judge.life_by_records(at, home)?;
        Some(if life == Life::Dead { judge.life_despite_records(at) } else { life })
    }

    /// Whether it still holds the leases that were found, and no others, and is still not in the cache: the runtime writes
    /// its file after ADD, and may have done so since.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn is_current(&self) -> Result<bool, Error> {
        if self.file.symlink_metadata().is_ok() {
            return Ok(false);
        }
        let Source::Leases { addresses, written } = &self.source else { return Ok(true) };
        let mut held = BTreeMap::new();
        for holder in holders_of(&self.cached)? {
            if owner(&self.cached.at.network, &holder).is_some_and(|at| at == self.cached.at) {
                held.insert(holder.address, holder.written);
            }
        }
        Ok(held.keys().eq(addresses) && held.values().max() == Some(written))
    }
}

fn is_settled(written: Duration) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(written) > SETTLED
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
    for config in host_local_configs(cached)? {
        found.extend(holders(&cached.question(&config, &HostLocal)?)?);
    }
    Ok(found)
}
