//! Keeps the ledger of the host as files below `/run`.
//!
//! For each boot and each network namespace of a host there is a directory with an entry for each attachment, and one with empty files that
//! lead to entries, in a directory for each kind of part by which entries are found. An entry is written as a draft beside it and then
//! renamed into its place, under a lock that is held for the moment. The directories stay, until the next boot where `/run` is kept in
//! memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cni_core::error::{Error, Failure as _};
use cni_core::fail;
use cni_core::names::{Attachment, hash_hex};
use cni_files::{Draft, FileError, Lock, LockError, PrivateDirectory, RUN_DIRECTORY, in_directory};
use cni_kernel::netlink::netns_cookie;
use cni_model::plan::Step;
use cni_model::record::{Part, PartChanges, PartKind};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::ledger::older::{self, OlderRecords};
use cni_plugin::ledger::{Entry, Ledger, is_indexed, names};
use nix::time::{ClockId, clock_gettime};

use crate::locks::is_without_place;

/// The name of the directories if the kernel has no cookies of namespaces, so that there is only one host.
const ONLY_HOST: &str = "host";

/// The directory of the directories of entries.
const ENTRIES: &str = "ledger";

/// The mode of all files.
const MODE: u32 = 0o600;

/// The directory of the directories of what leads to entries.
const INDEX: &str = "index";

/// The longest wait for the lock of the entries, which a process holds for less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same while records of an earlier release become entries.
const OLDER_PATIENCE: Duration = Duration::from_secs(10);

/// The ledger of one network namespace.
#[derive(Debug)]
pub struct RunLedger {
    root: PrivateDirectory,
    /// The name of the boot and the namespace, once it is known.
    name: Option<String>,
    /// What an earlier release has recorded, by the files of entries, once the directory is known to be one that nobody else can have written into.
    older: Option<BTreeMap<String, Entry>>,
    /// Files that lead to an entry without the part: a process was killed between the two.
    stale: BTreeSet<(Part, String)>,
    /// How long to wait for the lock. A process that does not go on is waited for once.
    patience: Duration,
    /// Whether what killed processes have left is to be removed.
    is_untidy: bool,
}

impl Default for RunLedger {
    /// The ledger of the network namespace in which it is first asked for something.
    fn default() -> Self {
        Self {
            root: PrivateDirectory::new(RUN_DIRECTORY),
            name: None,
            older: None,
            stale: BTreeSet::new(),
            patience: PATIENCE,
            is_untidy: false,
        }
    }
}

impl Drop for RunLedger {
    /// Removes what leads to nothing, once for all parts that were removed.
    fn drop(&mut self) {
        if self.is_untidy
            && let Err(error) = self.tidy()
        {
            log::warn!("{error}: {}", error.details());
        }
    }
}

impl RunLedger {
    fn name(&mut self) -> Result<&str, Error> {
        let name = match self.name.take() {
            Some(name) => name,
            None => identity()?.unwrap_or_else(|| ONLY_HOST.to_owned()).replace(':', "-"),
        };
        Ok(self.name.insert(name))
    }

    fn directory(&self) -> PrivateDirectory {
        self.root.below(ENTRIES).below(self.name.as_deref().unwrap_or(ONLY_HOST))
    }

    /// The directory of the files that lead to entries with a part of a kind.
    fn index(&self, kind: &str) -> PrivateDirectory {
        self.root.below(INDEX).below(self.name.as_deref().unwrap_or(ONLY_HOST)).below(kind)
    }

    /// Where an earlier release has its records.
    fn older_directory(&self) -> PrivateDirectory {
        self.root.below(self.name.as_deref().unwrap_or(ONLY_HOST))
    }

    /// The file of an attachment's entry, which may be missing.
    pub fn path(&mut self, at: &Attachment) -> Result<PathBuf, Error> {
        self.name()?;
        Ok(self.directory().path().join(file_of(at)))
    }

    /// Whether there are records of attachments of this boot, and all of them belong to other network namespaces.
    pub fn are_elsewhere(&mut self) -> Result<bool, Error> {
        let own = self.name()?.to_owned();
        if self.has_any(&own)? {
            return Ok(false);
        }
        let boot = format!("{}-", cni_files::boot_id()?);
        let mut names = [self.root.names()?, self.root.below(ENTRIES).names()?].concat();
        names.retain(|name| name.starts_with(&boot) && *name != own);
        // The own one may get its first entry between the two looks.
        Ok(names.iter().map(|name| self.has_any(name)).collect::<Result<Vec<_>, _>>()?.contains(&true))
    }

    fn has_any(&self, name: &str) -> Result<bool, FileError> {
        let entries = self.root.below(ENTRIES).below(name);
        for file in entries.names()? {
            let content = entries.read_file(&file)?.unwrap_or_default();
            let entry = Entry::parse(&String::from_utf8_lossy(&content));
            if entry.as_ref().and_then(AttachmentRecord::of).is_some() {
                return Ok(true);
            }
        }
        Ok(!self.root.below(name).below(older::ATTACHMENTS).names()?.is_empty())
    }

    /// Changes an entry. Returns the step that undoes it, if anything has changed. Containers work without a place for entries, and what is
    /// in a directory that cannot be trusted, or is not taken over since there is no room, needs no removal.
    ///
    /// # Errors
    /// If it cannot be read or written. Then it is unchanged.
    pub fn change(
        &mut self,
        at: &Attachment,
        namespace: Option<&str>,
        parts: &PartChanges,
    ) -> Result<Option<Step>, Error> {
        self.name()?;
        let is_removal = parts.iter().all(|(_, text)| text.is_none());
        let is_full = |error: &FileError| error.source.kind() == ErrorKind::StorageFull;
        match self.try_change(at, namespace, parts, is_removal) {
            Err(error) if is_without_place(&error) || is_removal && (error.is_untrusted() || is_full(&error)) => {
                log::warn!("the entry of {} stays as it is: {error}: {}", at.container, error.details());
                Ok(None)
            }
            done => Ok(done?),
        }
    }

    /// What leads to an entry is written before it and removed after it. So a process that is killed leaves no part that is not found.
    fn try_change(
        &mut self,
        at: &Attachment,
        namespace: Option<&str>,
        parts: &PartChanges,
        is_removal: bool,
    ) -> Result<Option<Step>, FileError> {
        let file = file_of(at);
        let path = self.directory().path().join(&file);
        let has_file = || path.symlink_metadata().is_ok();
        // A process may have been killed between what leads to a part and the part.
        let gone = parts.iter().filter(|(part, text)| text.is_none() && is_indexed(part)).map(|(part, _)| part.clone());
        let gone: Vec<Part> = gone.collect();
        self.is_untidy |= is_removal;
        let is_verified = self.verify()?;
        let mut left = gone.iter().map(|part| self.lead_of(part, &file)).chain([draft_of(&path)]);
        let is_left = is_verified && (self.has_older() || has_file() || left.any(|one| one.symlink_metadata().is_ok()));
        if is_removal && !is_left {
            return Ok(None);
        }
        let lock = self.lock()?;
        if let Some(lock) = &lock {
            self.take_over(lock)?;
        }
        let earlier = self.read_entry(&file)?.filter(|entry| entry.at == *at);
        if earlier.is_none() && has_file() {
            self.forget_torn(&file)?;
        }
        let (entry, undo) = Entry::changed(earlier.clone(), at, namespace, parts);
        let gone = if lock.is_some() { gone } else { Vec::new() };
        self.write(&file, (earlier.as_ref(), entry.as_ref()), &gone, lock.as_ref())?;
        Ok((entry != earlier).then_some(undo))
    }

    /// Locks the entries for a moment. Where a process that holds the lock does not go on, one change may undo another.
    fn lock(&mut self) -> Result<Option<Lock>, FileError> {
        let entries = self.directory();
        let open = || File::open(entries.path()).map_err(FileError::of("open", entries.path()));
        let opened = in_directory(|| entries.ensure(), open)?;
        match Lock::exclusive(opened, entries.path(), self.patience) {
            Ok(lock) => Ok(Some(lock)),
            Err(LockError::File(error)) => Err(error),
            Err(error @ LockError::Held { .. }) => {
                log::warn!("an entry is changed without a lock: {error}");
                self.patience = Duration::ZERO;
                Ok(None)
            }
        }
    }

    /// `gone` are parts that the entry has no longer, and may not have had.
    fn write(
        &self,
        file: &str,
        (earlier, entry): (Option<&Entry>, Option<&Entry>),
        gone: &[Part],
        lock: Option<&Lock>,
    ) -> Result<(), FileError> {
        let indexed = |entry: Option<&Entry>| entry.map(|entry| entry.indexed().collect()).unwrap_or_default();
        let (before, after): (BTreeSet<Part>, BTreeSet<Part>) = (indexed(earlier), indexed(entry));
        let led = after.difference(&before).try_for_each(|part| self.lead(part, file));
        match led.and_then(|()| self.write_entry(file, (earlier, entry), lock)) {
            Ok(()) => {
                let lost: BTreeSet<&Part> = before.iter().chain(gone).filter(|part| !after.contains(part)).collect();
                lost.into_iter().try_for_each(|part| self.forget(part, file))
            }
            Err(error) => {
                after.difference(&before).try_for_each(|part| self.forget(part, file))?;
                Err(error)
            }
        }
    }

    /// Only who has the lock may touch the draft of an entry.
    fn write_entry(
        &self,
        file: &str,
        (earlier, entry): (Option<&Entry>, Option<&Entry>),
        lock: Option<&Lock>,
    ) -> Result<(), FileError> {
        let directory = self.directory();
        let path = directory.path().join(file);
        match entry {
            None => {
                cni_files::remove(&path)?;
                lock.map_or(Ok(()), |_| cni_files::remove(&draft_of(&path)))
            }
            Some(_) if entry == earlier => Ok(()),
            Some(entry) if lock.is_none() => directory.replace_file(file, entry.to_string().as_bytes()),
            Some(entry) => replace(&path, entry.to_string()),
        }
    }

    /// Makes what leads to an entry by a part.
    fn lead(&self, part: &Part, file: &str) -> Result<(), FileError> {
        let (index, path) = (self.index(part.kind().as_str()), self.lead_of(part, file));
        in_directory(|| index.ensure(), || cni_files::open_or_create(&path, MODE).map(drop))
    }

    fn lead_of(&self, part: &Part, file: &str) -> PathBuf {
        self.index(part.kind().as_str()).path().join(index_name(part.thing(), file))
    }

    fn forget(&self, part: &Part, file: &str) -> Result<(), FileError> {
        cni_files::remove(&self.lead_of(part, file))
    }

    /// Removes all that leads to an entry whose parts are lost, and the entry.
    fn forget_torn(&self, file: &str) -> Result<(), FileError> {
        for kind in self.index("").names()?.iter().map(|kind| self.index(kind)) {
            let names = kind.names()?.into_iter().filter(|name| name.ends_with(file));
            names.map(|name| kind.path().join(name)).try_for_each(|path| cni_files::remove(&path))?;
        }
        cni_files::remove(&self.directory().path().join(file))
    }

    fn tidy(&mut self) -> Result<(), FileError> {
        let stale = std::mem::take(&mut self.stale);
        if stale.is_empty() {
            return Ok(());
        }
        // Another process may be about to write a part.
        let Some(_lock) = self.lock()? else { return Ok(()) };
        for (part, file) in stale {
            if self.read_entry(&file)?.is_none_or(|entry| entry.part(&part).is_none()) {
                self.forget(&part, &file)?;
            }
        }
        Ok(())
    }

    /// Whether there is a directory, which nobody else can have written into. The first time, what an earlier release has recorded there is
    /// read.
    fn verify(&mut self) -> Result<bool, FileError> {
        if self.older.is_none() && self.root.verify()? {
            self.older = Some(entries_of(&self.read_older()?));
            self.patience = if self.has_older() { OLDER_PATIENCE } else { PATIENCE };
        }
        Ok(self.older.is_some())
    }

    fn has_older(&self) -> bool {
        self.older.as_ref().is_some_and(|older| !older.is_empty())
    }

    /// What cannot be read is left out.
    fn read_older(&self) -> Result<OlderRecords, FileError> {
        let directory = self.older_directory();
        let mut records = OlderRecords::new();
        if directory.path().symlink_metadata().is_err() {
            return Ok(records);
        }
        for kind in older::KINDS {
            let directory = directory.below(kind);
            for name in directory.names()? {
                let read = directory.read_verified(&name).and_then(|content| Ok((content, directory.written(&name)?)));
                match read {
                    Ok((content, written)) => {
                        let text = String::from_utf8_lossy(&content.unwrap_or_default()).into_owned();
                        records.insert((kind, name), (text, written.unwrap_or_default()));
                    }
                    Err(error) => log::warn!("a record is passed over: {error}: {}", error.details()),
                }
            }
        }
        Ok(records)
    }

    /// Makes entries of what an earlier release has recorded, and removes that. Another process may have done so meanwhile, and one of
    /// that release may go on recording.
    fn take_over(&mut self, lock: &Lock) -> Result<(), FileError> {
        if !self.has_older() {
            return Ok(());
        }
        let records = self.read_older()?;
        for (file, older) in entries_of(&records) {
            let earlier = self.read_entry(&file)?;
            let whole = earlier.clone().map_or(older.clone(), |entry| entry.with_other(older));
            self.write(&file, (earlier.as_ref(), Some(&whole)), &[], Some(lock))?;
        }
        let directory = self.older_directory();
        for ((kind, name), (_, written)) in &records {
            let kind = directory.below(kind);
            if kind.written(name)? == Some(*written) {
                cni_files::remove(&kind.path().join(name))?;
            }
        }
        Draft::remove_dead(directory.path())?;
        let kinds = older::KINDS.map(|kind| directory.below(kind).path().to_owned());
        cni_files::remove_empty(&kinds)?;
        cni_files::remove_empty(&[directory.path().to_owned()])?;
        self.older = Some(BTreeMap::new());
        Ok(())
    }

    fn read_entry(&self, file: &str) -> Result<Option<Entry>, FileError> {
        let content = self.directory().read_verified(file)?;
        Ok(content.and_then(|content| Entry::parse(&String::from_utf8_lossy(&content))))
    }

    /// The entry in a file, with what an earlier release has recorded.
    fn read(&self, file: &str) -> Result<Option<Entry>, FileError> {
        let (entry, older) = (self.read_entry(file)?, self.older.as_ref().and_then(|older| older.get(file).cloned()));
        Ok(match (entry, older) {
            (Some(entry), Some(older)) => Some(entry.with_other(older)),
            (entry, older) => entry.or(older),
        })
    }
}

/// What records of an earlier release become, by the files of entries.
fn entries_of(records: &OlderRecords) -> BTreeMap<String, Entry> {
    older::take_over(records).into_values().map(|entry| (file_of(&entry.at), entry)).collect()
}

/// Writes an entry. Where there is no room for a draft, a shorter text takes the place of the one before, in one step: empty lines say
/// nothing.
fn replace(path: &Path, text: String) -> Result<(), FileError> {
    match Draft::create_at(&draft_of(path), text.as_bytes(), MODE).and_then(|draft| draft.replace(path)) {
        Err(error) if error.source.kind() == ErrorKind::StorageFull => {
            let length = path.metadata().map_or(0, |before| usize::try_from(before.len()).unwrap_or_default());
            if length < text.len() {
                return Err(error);
            }
            cni_files::overwrite(path, format!("{text}{}", "\n".repeat(length - text.len())).as_bytes(), MODE)
        }
        done => done,
    }
}

/// The draft of an entry. A killed process leaves it to the next one that changes the entry.
fn draft_of(path: &Path) -> PathBuf {
    path.with_extension("draft")
}

/// The file of an entry: its names may be too long for one.
fn file_of(at: &Attachment) -> String {
    hash_hex(&names(at))[..FILE_LENGTH].to_owned()
}

/// Digits of a hash, 128 bits.
const FILE_LENGTH: usize = 32;

/// The file that leads to an entry by a part.
fn index_name(thing: &str, file: &str) -> String {
    if thing.is_empty() { file.to_owned() } else { format!("{thing}-{file}") }
}

impl Ledger for RunLedger {
    fn entry(&mut self, at: &Attachment) -> Result<Option<Entry>, Error> {
        self.name()?;
        if !self.verify()? {
            return Ok(None);
        }
        Ok(self.read(&file_of(at))?.filter(|entry| entry.at == *at))
    }

    fn entries(&mut self, known: &[&Attachment]) -> Result<Vec<Entry>, Error> {
        self.name()?;
        if !self.verify()? {
            return Ok(Vec::new());
        }
        let older = self.older.iter().flatten().map(|(file, _)| file.clone());
        let names = self.directory().names()?.into_iter().filter(|name| name.len() == FILE_LENGTH);
        let mut files: BTreeSet<String> = names.chain(older).collect();
        known.iter().for_each(|at| _ = files.remove(&file_of(at)));
        let found = files.iter().map(|file| self.read(file)).collect::<Result<Vec<_>, _>>()?;
        Ok(found.into_iter().flatten().collect())
    }

    fn holders(&mut self, kind: PartKind, is_meant: &dyn Fn(&str) -> bool) -> Result<Vec<Entry>, Error> {
        self.name()?;
        if !self.verify()? {
            return Ok(Vec::new());
        }
        let mut files: BTreeMap<String, Vec<Part>> = BTreeMap::new();
        for name in self.index(kind.as_str()).names()? {
            let (thing, file) = name.rsplit_once('-').unwrap_or(("", &name));
            if is_meant(thing) {
                files.entry(file.to_owned()).or_default().push(kind.about(thing));
            }
        }
        let older = self.older.iter().flatten().filter(|(_, older)| older.things(kind).any(is_meant));
        older.for_each(|(file, _)| _ = files.entry(file.clone()).or_default());
        let mut found = Vec::new();
        for (file, parts) in files {
            let entry = self.read(&file)?;
            let is_stale = |part: &Part| entry.as_ref().is_none_or(|entry| entry.part(part).is_none());
            self.stale.extend(parts.into_iter().filter(is_stale).map(|part| (part, file.clone())));
            found.extend(entry.filter(|entry| entry.things(kind).any(is_meant)));
        }
        Ok(found)
    }

    fn since_boot(&mut self) -> Result<Duration, Error> {
        since_boot().map_err(|source| fail!(Io, "failed to read the time since boot", details: "{source}"))
    }

    fn now(&mut self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

/// The boot and the namespace that the calling thread is in, an identifier that is never reused: the kernel never gives a cookie
/// twice in a boot. `None` where it gives none, before Linux 5.14.
///
/// # Errors
/// When it could and does not. Who takes that for an old kernel would look for records in the wrong place.
pub fn identity() -> Result<Option<String>, Error> {
    identity_of(netns_cookie()?)
}

/// The identifier of the namespace with this cookie.
pub fn identity_of(cookie: Option<u64>) -> Result<Option<String>, Error> {
    Ok(cookie.map(|cookie| cni_files::boot_id().map(|boot| format!("{boot}:{cookie}"))).transpose()?)
}

/// The time since the machine was started, including suspend.
pub fn since_boot() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_BOOTTIME)?.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use cni_plugin::ledger::{ADDRESS, MASQUERADE, parse_attachment};

    use super::*;

    /// The ledger of a namespace below a folder.
    fn ledger(root: &Path) -> RunLedger {
        let mut ledger = RunLedger::default();
        (ledger.root, ledger.name) = (PrivateDirectory::new(root.join("run")), Some("boot-1".to_owned()));
        ledger
    }

    fn at(container: &str) -> Attachment {
        parse_attachment(&mut ["net", container, "eth0"].into_iter()).expect("an attachment")
    }

    /// Writes or removes the record of a masquerade and of an address. Returns what undoes it.
    fn change(root: &Path, container: &str, masquerade: Option<&str>, address: Option<&str>) -> Option<Step> {
        let texts = [(MASQUERADE.part(), masquerade), (ADDRESS.about("10.1.2.3"), address)];
        let parts = texts.map(|(part, text)| (part, text.map(str::to_owned)));
        ledger(root).change(&at(container), None, &parts.to_vec()).expect("changed")
    }

    /// What there is in the directories of a folder.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn an_entry_is_what_was_written_last_and_is_found_by_its_indexed_parts() {
        let root = tempfile::tempdir().expect("directory");
        let root = root.path();
        assert_eq!(ledger(root).entry(&at("a")).expect("read"), None);
        let undo = change(root, "a", Some("10.1.2.3"), Some("iptables")).expect("changed");
        assert_eq!(change(root, "a", Some("10.1.2.3"), Some("iptables")), None, "as it is");
        change(root, "b", None, Some("nftables"));
        let entry = ledger(root).entry(&at("a")).expect("read").expect("written");
        assert_eq!(entry.part(&MASQUERADE.part()), Some("10.1.2.3"));
        let holders = |of: &str| ledger(root).holders(ADDRESS, &|thing| thing == of).expect("listed").len();
        assert_eq!(["10.1.2.3", "10.1.2.4"].map(holders), [2, 0]);
        let others = ledger(root).entries(&[&at("a")]).expect("listed");
        assert_eq!(others.iter().map(|entry| entry.at.container.as_str()).collect::<Vec<_>>(), ["b"]);
        let file = root.join("run/ledger/boot-1").join(file_of(&at("a"))).metadata().expect("there");
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        let Step::Record { at: of, namespace, parts } = undo else { panic!("{undo}") };
        ledger(root).change(&of, namespace.as_deref(), &parts).expect("undone");
        change(root, "b", None, None);
        assert_eq!(files(root), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn an_entry_in_a_directory_that_cannot_be_trusted_stays_and_counts_as_missing() {
        let root = tempfile::tempdir().expect("directory");
        change(root.path(), "a", Some(""), None);
        let elsewhere = root.path().join("elsewhere");
        fs::rename(root.path().join("run"), &elsewhere).expect("moved");
        symlink(&elsewhere, root.path().join("run")).expect("linked");
        assert_eq!(change(root.path(), "a", None, None), None);
        assert!(elsewhere.join("ledger/boot-1").join(file_of(&at("a"))).exists());
    }

    #[test]
    fn what_the_release_before_has_recorded_is_read_and_taken_over_by_the_first_change() {
        let root = tempfile::tempdir().expect("directory");
        let older = root.path().join("run/boot-1");
        fs::create_dir_all(older.join("claims")).expect("made");
        fs::set_permissions(root.path().join("run"), fs::Permissions::from_mode(0o700)).expect("private");
        fs::write(older.join("claims/10.1.2.3"), "net a eth0").expect("written");
        let holders = || ledger(root.path()).holders(ADDRESS, &|thing| thing == "10.1.2.3").expect("listed");
        for is_there in [true, false] {
            assert_eq!(holders().iter().map(|entry| &entry.at).collect::<Vec<_>>(), [&at("a")]);
            assert_eq!(older.exists(), is_there, "a look changes nothing");
            change(root.path(), "b", Some(""), None);
        }
        for container in ["a", "b"] {
            change(root.path(), container, None, None);
        }
        assert_eq!(files(root.path()), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn what_leads_to_nothing_is_passed_over_and_removed_with_the_next_part() {
        let root = tempfile::tempdir().expect("directory");
        change(root.path(), "a", None, Some("iptables"));
        let entry = root.path().join("run/ledger/boot-1").join(file_of(&at("a")));
        fs::remove_file(&entry).expect("removed");
        let mut own = ledger(root.path());
        assert_eq!(own.holders(ADDRESS, &|_| true).expect("listed"), []);
        drop(own.change(&at("a"), None, &vec![(MASQUERADE.part(), None)]).map(|_| own));
        assert_eq!(files(root.path()), [""; 0].map(PathBuf::from));
        change(root.path(), "a", None, Some("iptables"));
        fs::write(&entry, "torn").expect("written");
        change(root.path(), "a", Some(""), None);
        assert_eq!(files(root.path()).len(), 1, "what leads to a torn entry goes");
        fs::write(draft_of(&entry), "half an ent").expect("written");
        change(root.path(), "a", None, None);
        assert_eq!(files(root.path()), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn entries_are_elsewhere_when_only_other_namespaces_of_this_boot_have_some() {
        let root = tempfile::tempdir().expect("directory");
        let mut ledger = ledger(root.path());
        assert!(!ledger.are_elsewhere().expect("listed"), "there are none");
        let boot = cni_files::boot_id().expect("a boot");
        let mut make = |name: &str, text: &str| {
            let path = root.path().join("run").join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::set_permissions(root.path().join("run"), fs::Permissions::from_mode(0o700)).expect("private");
            fs::write(path, text).expect("written");
            ledger.are_elsewhere().expect("listed")
        };
        let added = "net a eth0\nboot:1@7 /run/a\nadded bridge 7\n";
        assert!(!make(&format!("ledger/{boot}-7/x"), "net a eth0\n\nport-80 7\n"), "it is no record of an ADD");
        assert!(make(&format!("{boot}-7/attachments/x"), ""));
        assert!(!make("ledger/boot-1/x", added));
        assert!(make("ledger/boot-1/x", "torn"));
    }
}
