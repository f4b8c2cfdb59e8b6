//! The index: the leases of each container, with facts about them that the lease files do not hold.
//!
//! It is in a directory beside the leases, in 256 small files by a hash of the container's id, each replaced as a
//! whole. Its [`DirectoryStamp`] proves that it is complete. A record is believed only if the file of its lease is
//! still the one that was recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use cni_files::{Draft, FileError, overwrite, read_if_present, remove};

use super::lease::{FILE_MODE, Lease, MachineIdentity};
use super::lock::StoreError;
use super::stamp::DirectoryStamp;

/// The longest stamp.
const MOST_OF_STAMP: u64 = 4096;

/// The largest shard: records of some ten thousand leases.
const MOST_OF_SHARD: u64 = 16 * 1024 * 1024;

const STAMP: &str = "stamp";
const DRAFT: &str = "index.draft";

/// The records of a directory's leases.
#[derive(Debug)]
pub struct LeaseIndex {
    directory: PathBuf,
    /// Whether every lease is recorded.
    complete: bool,
    /// Whether the stamp is outdated.
    touched: bool,
    shards: BTreeMap<u8, Shard>,
    unsaved: BTreeSet<u8>,
}

impl LeaseIndex {
    /// Opens the index of the leases in `leases`, and finds out whether it is complete.
    pub fn open(directory: PathBuf, leases: &File, machine: &MachineIdentity) -> Self {
        let now = DirectoryStamp::of(leases, machine)
            .inspect_err(|error| log::warn!("stat of the leases' directory: {error}"));
        let then = read_if_present(MOST_OF_STAMP, &directory.join(STAMP)).inspect_err(warn).ok().flatten();
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
        self.load(number_of(container))?.leases_of(container)
    }

    /// The records of all containers by the names of the files. Some may be missing.
    pub fn all(&mut self) -> BTreeMap<String, Lease> {
        let saved = self.files().ok();
        for number in 0..=u8::MAX {
            if saved.as_ref().is_none_or(|files| files.contains(&name(number))) {
                self.load(number);
            } else {
                self.shards.entry(number).or_insert_with(Shard::new);
            }
        }
        self.shards.values().flat_map(Shard::leases).map(|lease| (lease.name.clone(), lease)).collect()
    }

    /// A shard; `None` when its file makes no sense.
    fn load(&mut self, number: u8) -> Option<&mut Shard> {
        if !self.shards.contains_key(&number) {
            let content = read_if_present(MOST_OF_SHARD, &self.file(number)).inspect_err(warn).ok()?;
            let shard = content.map_or_else(|| Some(Shard::new()), Shard::parse)?;
            self.shards.insert(number, shard);
        }
        self.shards.get_mut(&number)
    }

    fn file(&self, number: u8) -> PathBuf {
        self.directory.join(name(number))
    }

    /// The names of the files of the index.
    fn files(&self) -> io::Result<BTreeSet<String>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries?,
        };
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    /// Takes the leases that exist in place of the records, unless these are complete anyway.
    pub fn adopt(&mut self, leases: &[Lease]) {
        if self.complete {
            return;
        }
        let mut shards: BTreeMap<u8, Shard> = (0..=u8::MAX).map(|number| (number, Shard::new())).collect();
        for lease in leases.iter().filter(|lease| lease.owner.is_valid()) {
            shards.entry(number_of(&lease.owner.container)).or_insert_with(Shard::new).push(lease);
        }
        let changed = shards.iter().filter(|(number, shard)| self.shards.get(number) != Some(shard));
        self.unsaved.extend(changed.map(|(number, _)| number));
        self.shards = shards;
        self.complete = true;
        self.touched = true;
    }

    /// The records have proven wrong.
    pub fn distrust(&mut self) {
        self.complete = false;
    }

    /// The directory of the leases changes: the stamp loses its force.
    pub fn touch(&mut self) {
        self.touched = true;
    }

    /// Records a lease, in place of an earlier record of the same file name.
    pub fn insert(&mut self, lease: &Lease) {
        self.change(&lease.owner.container, |shard| {
            shard.remove(&lease.name);
            shard.push(lease);
        });
    }

    /// Forgets a lease.
    pub fn remove(&mut self, lease: &Lease) {
        self.change(&lease.owner.container, |shard| shard.remove(&lease.name));
    }

    fn change(&mut self, container: &str, change: impl FnOnce(&mut Shard)) {
        let number = number_of(container);
        match self.load(number) {
            Some(shard) => {
                change(shard);
                self.unsaved.insert(number);
            }
            None => self.complete = false,
        }
    }

    /// Makes the directory of the index if it is missing. A symbolic link in its place, which the owner of the leases'
    /// directory could make, would lead root's files elsewhere.
    pub fn ensure_directory(&self) -> Result<(), StoreError> {
        if self.refuse_link()? {
            return Ok(());
        }
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(source) => Err(FileError::of("mkdir", &self.directory)(source).into()),
        }
    }

    /// Returns whether there is anything.
    fn refuse_link(&self) -> Result<bool, StoreError> {
        match fs::symlink_metadata(&self.directory) {
            Ok(about) if about.is_symlink() => {
                Err(FileError::of("use", &self.directory)(io::Error::other("it is a symbolic link")).into())
            }
            found => Ok(found.is_ok()),
        }
    }

    /// Writes what has changed. The stamp is written last: the old one has been invalid since the leases were changed.
    pub fn save(&mut self, leases: &File, machine: &MachineIdentity) -> Result<(), StoreError> {
        self.refuse_link()?;
        let unsaved = std::mem::take(&mut self.unsaved).into_iter();
        let is_filled = |number: &u8| self.shards.get(number).is_some_and(|shard| !shard.is_empty());
        let (filled, emptied): (Vec<_>, Vec<_>) = unsaved.partition(is_filled);
        emptied.iter().try_for_each(|number| remove(&self.file(*number)))?;
        if filled.is_empty() && (self.remove_unused()? || !self.touched) {
            return Ok(());
        }
        self.ensure_directory()?;
        let draft = self.directory.join(DRAFT);
        for (number, shard) in filled.iter().filter_map(|number| Some((*number, self.shards.get(number)?))) {
            Draft::create_at(&draft, shard.text().as_bytes(), FILE_MODE)?.replace(&self.file(number))?;
        }
        if self.touched && self.complete {
            let failed = FileError::of("stamp", &self.directory);
            if let Some(stamp) = DirectoryStamp::put(leases, machine).map_err(failed)? {
                overwrite(&self.directory.join(STAMP), stamp.text().as_bytes(), FILE_MODE)?;
            }
        }
        Ok(())
    }

    /// Removes the directory of an index without leases, so that nothing is left of an unused network, and in any case the
    /// draft of a killed process. Returns whether the directory does not exist now.
    fn remove_unused(&self) -> Result<bool, StoreError> {
        let files = self.files().map_err(FileError::of("read", &self.directory))?;
        let is_used = files.iter().any(|file| ![STAMP, DRAFT].contains(&file.as_str()));
        let mut useless = files.iter().filter(|file| !is_used || *file == DRAFT);
        useless.try_for_each(|file| remove(&self.directory.join(file)))?;
        if is_used {
            return Ok(false);
        }
        match fs::remove_dir(&self.directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(FileError::of("remove", &self.directory)(error).into())
            }
            Ok(()) | Err(_) => Ok(true),
        }
    }
}

/// The name of a shard's file.
fn name(number: u8) -> String {
    format!("{number:02x}")
}

/// Logs that a part of the index cannot be read; the leases themselves are read instead.
fn warn(error: &FileError) {
    log::warn!("the index of the leases is not used: {error}: {}", error.source);
}

/// The first line.
const HEADER: &str = "#host-local leases\n";

/// The number of tabs in a record.
const TABS: usize = 8;

/// The number of the shard in which a container's records are: FNV-1a, folded to one byte.
fn number_of(container: &str) -> u8 {
    let hash = container.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_le_bytes().into_iter().fold(0, |folded, byte| folded ^ byte)
}

/// A part of the index: the records of some containers, one line for each lease. It is kept as the text that is on the disk, so that a
/// look-up does not pay for the records of other containers. It begins with a character that no id begins with, so it cannot be mistaken
/// for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shard(String);

impl Shard {
    /// A shard without a record.
    fn new() -> Self {
        Self(HEADER.to_owned())
    }

    /// Takes the content of a file; `None` when it is not what was written.
    fn parse(content: Vec<u8>) -> Option<Self> {
        let shard =
            Self(String::from_utf8(content).ok().filter(|text| text.starts_with(HEADER) && text.ends_with('\n'))?);
        let whole = |line: &str| line.bytes().filter(|byte| *byte == b'\t').count() == TABS;
        if shard.lines().all(whole) { Some(shard) } else { None }
    }

    /// The content of the file.
    fn text(&self) -> &str {
        &self.0
    }

    /// Whether there is no record.
    fn is_empty(&self) -> bool {
        self.0.len() == HEADER.len()
    }

    /// The leases of a container; `None` when a record makes no sense.
    fn leases_of(&self, container: &str) -> Option<Vec<Lease>> {
        self.lines().filter(|line| line.split('\t').nth(1) == Some(container)).map(Lease::parse).collect()
    }

    /// The leases of all containers, without the records that make no sense.
    fn leases(&self) -> impl Iterator<Item = Lease> {
        self.lines().filter_map(Lease::parse)
    }

    /// Adds a record.
    fn push(&mut self, lease: &Lease) {
        self.0.push_str(&lease.line());
    }

    /// Removes the record of a file, if there is one.
    fn remove(&mut self, name: &str) {
        let is_its = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('\t'));
        let kept = self.0.split_inclusive('\n').filter(|line| !is_its(line)).collect();
        self.0 = kept;
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.lines().skip(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str, container: &str) -> Lease {
        Lease::parse(&format!("{name}\t{container}\teth0\t1\t2\t3\t\t\t")).expect("a record")
    }

    #[test]
    fn records_come_and_go() {
        let mut shard = Shard::new();
        for (name, container) in [("10.1.2.3", "a"), ("10.1.2.33", "b"), ("2001:db8::3", "a")] {
            shard.push(&lease(name, container));
        }
        assert_eq!(shard.leases_of("a"), Some(vec![lease("10.1.2.3", "a"), lease("2001:db8::3", "a")]));
        shard.remove("10.1.2.3");
        assert_eq!(shard.leases().collect::<Vec<_>>(), [lease("10.1.2.33", "b"), lease("2001:db8::3", "a")]);
        assert_eq!(Shard::parse(shard.text().into()), Some(shard.clone()));
        shard.remove("10.1.2.33");
        shard.remove("2001:db8::3");
        assert!(shard.is_empty());
    }

    #[test]
    fn what_was_not_written_so_is_refused() {
        let line = lease("10.1.2.3", "a").line();
        for text in ["", "#host-local leases", &line, &format!("{HEADER}x\n"), &format!("{HEADER}{}", line.trim_end())]
        {
            assert_eq!(Shard::parse(text.into()), None, "{text:?}");
        }
        let odd = Shard::parse(format!("{HEADER}x\ta\t\t\t\t\t\t\t\n").into()).expect("the form is right");
        assert_eq!(odd.leases_of("a"), None);
    }

    #[test]
    fn the_numbers_stay_what_they_are() {
        assert_eq!(["", "a", "foobar"].map(number_of), [0xc5, 0xed, 0xb2], "FNV-1a of 32 bits, folded");
    }
}
