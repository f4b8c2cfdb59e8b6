//! The containers of this host, and what dead containers have left: what `list` shows and `gc` removes.
//!
//! libcni's cache has the attachments, host-local's files the addresses, and our records what ADD has made. `life.rs` decides
//! for all of them whether the container is alive.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cni_builtin::PLUGINS;
use cni_core::error::Error;
use cni_core::names::{Attachment, NetworkName};
use cni_flannel::Flannel;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::ledger::{ADDRESS, Entry};
use cni_plugin::namespace::Life;
use cni_plugin::run::Plugin as _;
use cni_plugin::share::Share;
use serde_json::{Value, json};

use crate::cache::Cached;
use crate::cache::reader::CacheReader;
use crate::life::{Judge, LIVES_ON, PortOrder};
use crate::network_lists;
use crate::output::error_line;
use crate::pools::{Pool, holders_of, owner};
use crate::repair::{self, RepairOutcome};
use crate::result_cache::{self, CacheFile, Caches, Scope};

/// How old a lease must be to count as left over. A younger one may belong to an ADD that has not ended, so that the cache does
/// not have it yet.
const SETTLED: Duration = Duration::from_secs(60);

/// Where host-local keeps leases, by default and for Nomad.
const LEASES: [&str; 2] = ["/var/lib/cni/networks", "/run/cni"];

/// Where flannel keeps its state, by default.
const FLANNEL: &str = "/var/lib/cni/flannel";

/// What is said where the configuration of a network is unknown.
const MAY_STAY: &str = "its rules are removed, but the configuration of its network is in no cache, so leases and state files may stay; \
                        --cache-dir names the runtime's cache";

/// Printed when a cache that cannot be read may contain further attachments.
pub const NOT_LOOKED_FOR: &str =
    "containers that are in no cache are not looked for, since a cache or a file of it cannot be read";

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
    /// Whether the search for attachments that are in no cache was skipped, or failed.
    pub has_not_looked: bool,
    /// The directories of the caches that were read.
    pub caches: Vec<PathBuf>,
    /// The directories in which there may be a cache.
    directories: Vec<PathBuf>,
    /// The attachments of caches that are not looked at.
    elsewhere: Vec<Cached>,
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
    /// Where a runtime would write it into its cache.
    files: Vec<PathBuf>,
    /// [`Life::Dead`] or [`Life::Unknown`], never [`Life::Alive`].
    pub life: Life,
    /// What its removal may leave, if not everything is known.
    pub may_stay: Option<&'static str>,
}

/// Where a container was found that is not in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Leases {
        addresses: BTreeSet<IpAddr>,
        /// When the youngest was written, as time since 1970.
        written: Duration,
    },
    /// The record of an ADD, or records that `repair` wrote when it put back rules of a container that other projects' plugins had made.
    Records,
}

impl Inventory {
    /// Looks at the host, and changes nothing. What cannot be read is in `unknown`, and the rest is read all the same.
    pub fn observe(scope: &Scope) -> Self {
        let Caches { directories, read: caches, files, unknown, seen } = Caches::observe(scope.cache_dir.as_deref());
        let (mut lacks_caches, mut reader) = (!unknown.is_empty(), CacheReader::default());
        let mut found = Self { caches, directories, unknown, ..Self::default() };
        let mut read = found.read(files, &mut reader);
        let mut readable: BTreeSet<_> = read.iter().filter_map(|(_, file)| file.identity()).collect();
        read.retain(|(cached, _)| scope.has(&cached.at));
        if scope.cache_dir.is_some() {
            let (others, known) = (Caches::of_host(seen), found.unknown.len());
            found.unknown.extend(others.unknown);
            found.directories.extend(others.directories);
            let elsewhere = found.read(others.files, &mut reader);
            readable.extend(elsewhere.iter().filter_map(|(_, file)| file.identity()));
            found.elsewhere = elsewhere.into_iter().map(|(cached, _)| cached).collect();
            lacks_caches |= found.unknown.len() > known;
        }
        let judged = Judge::new(&found.caches).and_then(|mut judge| {
            found.attached = attached(read, &mut judge);
            doubt_entries_of_the_living(
                &mut found.attached,
                &found.elsewhere,
                &found.directories,
                &readable,
                &mut judge,
            );
            let is_dead =
                |at: &Attachment| found.attached.iter().any(|one| one.cached.at == *at && one.life == Life::Dead);
            found.port_order = judge.port_order(found.attached.iter().map(|one| &one.cached), is_dead);
            found.pools = Pool::observe(found.attached.iter().rev().map(|one| &one.cached), &mut found.unknown);
            if lacks_caches {
                found.unknown.push(NOT_LOOKED_FOR.to_owned());
                found.has_not_looked = true;
                return Ok(());
            }
            found.look_for_others(scope, &mut judge)
        });
        if let Err(error) = judged {
            found.unknown.push(error_line(&error));
            found.has_not_looked = true;
        }
        found
    }

    /// Looks at the host as [`Inventory::observe`], and for missing rules of those that live.
    pub fn observe_rules(scope: &Scope) -> Self {
        let (mut found, tools) = (Self::observe(scope), repair::Tools::default());
        found.attached.iter_mut().for_each(|one| one.examine(&tools));
        found
    }

    /// Reads files of caches. Describes in `unknown` those that cannot be read.
    fn read(&mut self, files: Vec<CacheFile>, reader: &mut CacheReader) -> Vec<(Cached, CacheFile)> {
        let mut read = Vec::new();
        for mut file in files {
            match repair::read(&mut file, reader) {
                Ok(cached) => read.extend(cached.map(|cached| (cached, file))),
                Err(error) => self.unknown.push(format!("{}: {}", file.path.display(), error_line(&error))),
            }
        }
        read
    }

    /// Whether nothing is missing, left over, or unclear. What is in `unknown` does not count.
    pub fn is_clean(&self) -> bool {
        let is_clean = |one: &Attached| matches!(one.outcome, RepairOutcome::Complete | RepairOutcome::Unknown(_));
        self.left.is_empty() && self.attached.iter().all(is_clean)
    }

    /// Finds containers by leases and records that are not in the cache: not every runtime keeps it.
    fn look_for_others(&mut self, scope: &Scope, judge: &mut Judge) -> Result<(), Error> {
        let mut known: BTreeSet<Attachment> = self.cached().map(|cached| cached.at.clone()).collect();
        for (cached, addresses, written) in self.leased(&known) {
            known.insert(cached.at.clone());
            if !is_settled(written) {
                continue;
            }
            let life = judge.life_of_lease(&cached.at, &addresses, written);
            if life != Life::Alive {
                self.push_left(cached, Source::Leases { addresses, written }, life, None);
            }
        }
        let entries = judge.ledger().entries(&known.iter().collect::<Vec<_>>())?;
        for entry in entries.into_iter().filter(|entry| scope.has(&entry.at)) {
            if judge.life_by_entry(&entry) == Some(Life::Dead) {
                let maker = AttachmentRecord::of(&entry).map(|record| record.maker);
                let successor = if maker.is_none() { self.find_successor(&entry, judge) } else { None };
                let life = successor.map_or_else(|| judge.life_despite_records(&entry.at), Life::Unknown);
                self.push_recorded(entry.at, life, maker);
            }
        }
        Ok(())
    }

    /// Names the container that has an address of a dead one by now, if our bridge has made its interface, and another project's firewall
    /// its rules. That firewall has also removed the rules of the dead one, but not our records. Rules of both look the same. Our own
    /// firewall knows which of them stay.
    fn find_successor(&self, dead: &Entry, judge: &mut Judge) -> Option<String> {
        if !self.unknown.is_empty() {
            return Some("not everything can be read, and the rules may belong to another container".to_owned());
        }
        let has_firewall = |one: &&Attached| one.cached.plugins.iter().any(|config| config.kind == "firewall");
        self.attached.iter().filter(|one| one.life != Life::Dead).filter(has_firewall).find_map(|one| {
            let has = |entry: &Entry, address: &&IpAddr| entry.part(&ADDRESS.about(address)).is_some();
            let address = one.cached.addresses.iter().find(|address| has(dead, address))?;
            let own = judge.ledger().entry(&one.cached.at).ok()??;
            let is_successor = AttachmentRecord::of(&own).is_some() && !has(&own, &address);
            is_successor.then(|| {
                format!("{address} belongs to container {} now, and the rules may be its own", one.cached.at.container)
            })
        })
    }

    fn push_left(&mut self, cached: Cached, source: Source, life: Life, may_stay: Option<&'static str>) {
        let files = self.directories.iter().map(|directory| result_cache::file(directory, &cached.at)).collect();
        self.left.push(Leftover { cached, source, files, life, may_stay });
    }

    /// Adds an attachment that has left only records. The plugins of its list are called, if a cache or a file has it, or else the `maker` of
    /// its record, and host-local for its network's leases. Our plugins that need only names to find what they have made are called in any
    /// case.
    fn push_recorded(&mut self, at: Attachment, life: Life, maker: Option<String>) {
        let of_rules = PLUGINS.iter().filter(|plugin| [Share::Rules, Share::Properties].contains(&plugin.share()));
        let mut cached = Cached::of_record(at.clone(), of_rules.map(|plugin| json!({"type": plugin.kind()})));
        let known = self.cached().rev().find(|cached| cached.at.network == at.network);
        let listed = known.map(|known| known.of_another(at.clone()).plugins).or_else(|| {
            let list = network_lists::lists(None).find(|list| list["name"] == at.network.as_str())?;
            Some(Cached::of_record(at.clone(), network_lists::plugins(&list)).plugins)
        });
        let mut may_stay = None;
        let listed = listed.unwrap_or_else(|| {
            let (Some(maker), leases) = (maker, self.leases_of(&at.network)) else { return Vec::new() };
            let files = [at.container.to_string(), format!("{}@{}", at.container, at.ifname)];
            let mut states = files.iter().map(|file| Path::new(FLANNEL).join(file));
            let is_known = if maker == Flannel.kind() { states.any(|file| file.exists()) } else { !leases.is_empty() };
            may_stay = (!is_known).then_some(MAY_STAY);
            Cached::of_record(at, [json!({"type": maker})].into_iter().chain(leases)).plugins
        });
        cached.plugins.retain(|config| listed.iter().all(|one| one.kind != config.kind));
        cached.plugins.splice(0..0, listed);
        self.push_left(cached, Source::Records, life, may_stay);
    }

    /// A configuration of host-local for each folder of leases that a network has, of those that are known.
    fn leases_of(&self, network: &NetworkName) -> Vec<Value> {
        let others = self.pools.iter().filter_map(|pool| pool.directory.parent());
        let folders: BTreeSet<&Path> = LEASES.iter().map(Path::new).chain(others).collect();
        let own = folders.into_iter().filter(|folder| folder.join(network.as_str()).is_dir());
        own.map(|own| json!({"type": "host-local", "ipam": {"type": "host-local", "dataDir": own}})).collect()
    }

    /// What all caches have.
    fn cached(&self) -> impl DoubleEndedIterator<Item = &Cached> {
        self.elsewhere.iter().chain(self.attached.iter().map(|one| &one.cached))
    }

    /// The holders of leases that are not known, with their addresses and the time of the youngest.
    fn leased(&self, known: &BTreeSet<Attachment>) -> Vec<(Cached, BTreeSet<IpAddr>, Duration)> {
        let mut found: BTreeMap<Attachment, (Cached, BTreeSet<IpAddr>, Duration)> = BTreeMap::new();
        for Pool { network, cached, holders, .. } in &self.pools {
            for holder in holders {
                let Some(at) = owner(network, holder) else { continue };
                if known.contains(&at) {
                    continue;
                }
                let new = || (cached.of_another(at.clone()), BTreeSet::new(), Duration::ZERO);
                let (_, addresses, written) = found.entry(at.clone()).or_insert_with(new);
                addresses.insert(holder.address);
                *written = holder.written.max(*written);
            }
        }
        found.into_values().collect()
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

/// Marks a dead entry as unclear if another cache has an entry of the same attachment that may live, or is not in `readable`: DEL for the
/// dead entry would remove the living attachment.
fn doubt_entries_of_the_living(
    attached: &mut [Attached],
    elsewhere: &[Cached],
    directories: &[PathBuf],
    readable: &BTreeSet<(u64, u64)>,
    judge: &mut Judge,
) {
    for index in 0..attached.len() {
        let Attached { cached, file, life, .. } = &attached[index];
        if *life != Life::Dead {
            continue;
        }
        let at = cached.at.clone();
        let may_live = attached.iter().any(|one| one.cached.at == at && one.life != Life::Dead)
            || elsewhere.iter().any(|one| one.at == at && judge.life(one) != Life::Dead)
            // A record that says "dead" holds for all entries of the attachment.
            || judge.record(&at).is_none() && directories
                .iter()
                .filter_map(|directory| identity_of(&result_cache::file(directory, &at)))
                .any(|other| !readable.contains(&other));
        if may_live {
            let path = file.path.display();
            let reason =
                format!("another cache has it too, and there it may live; if {path} is of a former ADD, remove it");
            attached[index].life = Life::Unknown(reason.clone());
            attached[index].outcome = RepairOutcome::Skipped(reason);
        }
    }
}

/// Returns device and inode of a file that may be there; values that no file has if the file cannot be examined.
fn identity_of(path: &Path) -> Option<(u64, u64)> {
    match path.symlink_metadata() {
        Ok(found) => Some((found.dev(), found.ino())),
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => None,
        Err(_) => Some((0, 0)),
    }
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
        if let Source::Leases { addresses, .. } = &self.source {
            addresses.iter().copied().collect()
        } else {
            Vec::new()
        }
    }

    /// When the youngest lease was written, as time since 1970.
    pub const fn written(&self) -> Option<Duration> {
        if let Source::Leases { written, .. } = &self.source { Some(*written) } else { None }
    }

    /// Whether it lives by now, as far as records tell.
    pub fn life_by_records(&self, judge: &mut Judge) -> Option<Life> {
        let at = &self.cached.at;
        if matches!(self.source, Source::Leases { .. }) {
            return judge.life_by_record(at);
        }
        let life = judge.life_by_records(at)?;
        Some(if life == Life::Dead { judge.life_despite_records(at) } else { life })
    }

    /// Whether it still holds the leases that were found, and no others, and is still not in the cache: the runtime writes
    /// its file after ADD, and may have done so since.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn is_current(&self) -> Result<bool, Error> {
        if self.files.iter().any(|file| file.symlink_metadata().is_ok()) {
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

#[cfg(test)]
mod tests {
    use cni_plugin::ledger::parse_attachment;

    use super::*;

    fn dead(container: &str) -> Attached {
        let at = parse_attachment(&mut ["n", container, "eth0"].into_iter()).expect("an attachment");
        let (file, outcome) = (CacheFile::of_test(), RepairOutcome::Complete);
        Attached { cached: Cached::of_record(at, []), file, life: Life::Dead, outcome }
    }

    #[test]
    fn an_entry_is_unclear_if_another_may_live_or_was_not_read() {
        let mut all = ["c1", "c1", "c2", "c2"].map(dead);
        all[1].life = Life::Alive;
        doubt_entries_of_the_living(&mut all, &[], &[], &BTreeSet::new(), &mut Judge::new(&[]).expect("a judge"));
        let [older, living, ended @ ..] = all.map(|one| one.life);
        assert!(matches!(older, Life::Unknown(_)) && living == Life::Alive && ended == [Life::Dead, Life::Dead]);

        // An entry in another cache counts only if it was not read.
        let (mut all, other) = ([dead("c1")], [PathBuf::from(format!("/tmp/inventory-{}", std::process::id()))]);
        let path = result_cache::file(&other[0], &all[0].cached.at);
        std::fs::create_dir_all(&path).expect("create it");
        let (mut judge, readable) = (Judge::new(&[]).expect("a judge"), identity_of(&path).into_iter().collect());
        doubt_entries_of_the_living(&mut all, &[], &other, &readable, &mut judge);
        let settled = all[0].life.clone();
        doubt_entries_of_the_living(&mut all, &[], &other, &BTreeSet::new(), &mut judge);
        assert!(settled == Life::Dead && matches!(all[0].life, Life::Unknown(_)));
        std::fs::remove_dir_all(&other[0]).expect("remove the folder");
    }
}
