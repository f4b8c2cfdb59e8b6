//! The index: which leases a container has, and what the leases themselves do not tell of its home.
//!
//! It lies in a directory of its own beside the leases, in 256 small files by a hash of the container's id,
//! each replaced as a whole. Whether it knows every lease is proven by its [`Stamp`]; a record is believed
//! only as far as the file of its lease is still the one that was recorded. Its content begins with a
//! character that no id begins with, so nobody takes it for a lease.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use cni_core::names::hash_hex;

use super::error::StoreError;
use super::files;
use super::lease::Lease;
use super::machine::Machine;
use super::stamp::Stamp;

/// The first line of each file.
const HEADER: &str = "#host-local leases";

/// The name of a file: two hexadecimal digits.
type Shard = String;

fn shard_of(container: &str) -> Shard {
    hash_hex(container)[..2].to_owned()
}

/// The records of a directory's leases.
#[derive(Debug)]
pub struct Index {
    directory: PathBuf,
    /// Whether every lease is recorded.
    complete: bool,
    /// Whether the stamp is out of date.
    touched: bool,
    shards: BTreeMap<Shard, Vec<Lease>>,
    unsaved: BTreeSet<Shard>,
}

impl Index {
    /// Opens the index of the leases in `leases`, and finds out whether it is complete.
    pub fn open(directory: PathBuf, leases: &File, machine: &Machine) -> Self {
        let now = Stamp::of(leases, machine).inspect_err(|error| log::warn!("stat of the leases' directory: {error}"));
        let then = files::read_if_there(&directory.join("stamp")).inspect_err(warn).ok().flatten();
        let complete = match (now, then) {
            (Ok(Some(now)), Some(then)) => now.text().as_bytes() == then,
            _ => false,
        };
        Self { directory, complete, touched: false, shards: BTreeMap::new(), unsaved: BTreeSet::new() }
    }

    /// The records of a container; `None` unless they are complete.
    pub fn leases_of(&mut self, container: &str) -> Option<Vec<Lease>> {
        if !self.complete {
            return None;
        }
        let leases = self.load(&shard_of(container))?;
        Some(leases.iter().filter(|lease| lease.owner.container == container).cloned().collect())
    }

    /// The records of all containers by the names of the files. They need not be complete.
    pub fn all(&mut self) -> BTreeMap<String, Lease> {
        for shard in (0..=u8::MAX).map(|number| format!("{number:02x}")) {
            self.load(&shard);
        }
        self.shards.values().flatten().map(|lease| (lease.name.clone(), lease.clone())).collect()
    }

    /// The records of a shard; `None` when its file makes no sense.
    fn load(&mut self, shard: &Shard) -> Option<&mut Vec<Lease>> {
        if !self.shards.contains_key(shard) {
            let content = files::read_if_there(&self.directory.join(shard)).inspect_err(warn).ok()?;
            let leases = content.map_or_else(|| Some(Vec::new()), |content| parse(&content))?;
            self.shards.insert(shard.clone(), leases);
        }
        self.shards.get_mut(shard)
    }

    /// Takes the leases that are there in place of the records, unless these are complete anyway.
    pub fn adopt(&mut self, leases: &[Lease]) {
        if self.complete {
            return;
        }
        let mut shards: BTreeMap<Shard, Vec<Lease>> =
            (0..=u8::MAX).map(|number| (format!("{number:02x}"), Vec::new())).collect();
        for lease in leases.iter().filter(|lease| lease.owner.is_valid()) {
            shards.entry(shard_of(&lease.owner.container)).or_default().push(lease.clone());
        }
        let changed = |(shard, leases): &(&Shard, &Vec<Lease>)| self.shards.get(*shard) != Some(*leases);
        self.unsaved.extend(shards.iter().filter(changed).map(|(shard, _)| shard.clone()));
        self.shards = shards;
        self.complete = true;
        self.touched = true;
    }

    /// The records have proven wrong.
    pub fn distrust(&mut self) {
        self.complete = false;
    }

    /// The directory of the leases is about to change: the stamp loses its force.
    pub fn touch(&mut self) {
        self.touched = true;
    }

    /// Records a lease, in place of an earlier record of the same file name.
    pub fn insert(&mut self, lease: Lease) {
        self.change(&lease.owner.container.clone(), |leases| {
            leases.retain(|other| other.name != lease.name);
            leases.push(lease);
        });
    }

    /// Forgets a lease.
    pub fn remove(&mut self, lease: &Lease) {
        self.change(&lease.owner.container, |leases| leases.retain(|other| other.name != lease.name));
    }

    fn change(&mut self, container: &str, change: impl FnOnce(&mut Vec<Lease>)) {
        let shard = shard_of(container);
        match self.load(&shard) {
            Some(leases) => {
                change(leases);
                self.unsaved.insert(shard);
            }
            None => self.complete = false,
        }
    }

    /// Makes the directory of the index where it is missing.
    pub fn ensure_directory(&self) -> Result<(), StoreError> {
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(source) => Err(StoreError::io("mkdir", &self.directory)(source)),
        }
    }

    /// Writes what has changed. The stamp comes last: until then the old one is void, since a change of the
    /// leases came before any change of which leases are recorded.
    pub fn save(&mut self, leases: &File, machine: &Machine) -> Result<(), StoreError> {
        if self.unsaved.is_empty() && !self.touched {
            return Ok(());
        }
        self.ensure_directory()?;
        let draft = self.directory.join("index.draft");
        while let Some(shard) = self.unsaved.pop_first() {
            let path = self.directory.join(&shard);
            match self.shards.get(&shard).filter(|leases| !leases.is_empty()) {
                Some(leases) => files::replace(&draft, &path, text(leases).as_bytes())?,
                None => files::remove(&path)?,
            }
        }
        if self.touched && self.complete {
            let failed = StoreError::io("stamp", &self.directory);
            if let Some(stamp) = Stamp::put(leases, machine).map_err(failed)? {
                files::replace(&draft, &self.directory.join("stamp"), stamp.text().as_bytes())?;
            }
        }
        Ok(())
    }
}

fn text(leases: &[Lease]) -> String {
    leases.iter().fold(format!("{HEADER}\n"), |text, lease| text + &lease.line())
}

fn parse(content: &[u8]) -> Option<Vec<Lease>> {
    let text = std::str::from_utf8(content).ok()?.strip_suffix('\n')?;
    let mut lines = text.split('\n');
    if lines.next()? == HEADER { lines.map(Lease::parse).collect() } else { None }
}

/// What cannot be read of the index is read from the leases themselves.
fn warn(error: &StoreError) {
    log::warn!("the index of the leases is not used: {error}: {}", error.cause());
}
