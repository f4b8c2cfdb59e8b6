//! The leases of one network, as files in its directory: the only part of the plugin that changes files.
//!
//! A lease is a file whose name is the address and whose content is the container's id and the interface, byte for
//! byte as the reference writes it, since both may work on one directory. A lease is created by `link(2)`: completely
//! or not at all, and never in place of another. The directory's `lock` is held from the opening of a [`Store`] until
//! it is dropped.
//!
//! The index beside the leases finds a container's leases without reading all of them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cni_core::cidr::parse_ip;
use cni_core::error::Failure;
use cni_core::names::Attachment;
use cni_files::{Draft, FileError, Lock, in_directory, is_local, open_or_create, overwrite, read_if_present, remove};

mod index;
mod lease;
mod lock;
mod stamp;

pub use lease::{Lease, LeaseOrigin, MachineIdentity, Owner, is_held};
pub use lock::StoreError;

use index::LeaseIndex;
use lease::{FILE_MODE, FileId};
use lock::LOCK_WAIT;

/// The directory of the index, beside the leases. Its name is not an address, and its files do not look like leases.
const OWN_DIRECTORY: &str = ".cni-plugins-rs";

/// A lease that is complete but has no name yet. A crash may leave it; the next ADD removes it.
const DRAFT: &str = "lease.draft";

/// The longest content of a cursor, which is an address.
const MOST_OF_CURSOR: u64 = 4096;

/// Every file that is named as an address.
#[derive(Debug, Default)]
pub struct DirectoryScan {
    /// Leases with a holder.
    pub leases: Vec<Lease>,
    /// Files without an owner, which a crash can leave of a lease.
    pub unowned: BTreeMap<IpAddr, String>,
}

/// The undo of an allocation.
#[derive(Debug)]
pub enum LeaseUndo {
    /// The lease was made.
    Made(Lease),
    /// The lease existed before, as it is here.
    Kept(Lease),
}

/// Whether the directory may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectoryAccess {
    Read,
    Write,
}

/// The directory of a network, locked.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    handle: File,
    access: DirectoryAccess,
    machine: MachineIdentity,
    index: LeaseIndex,
    draft: Option<(Owner, Draft)>,
    _lock: Option<Lock>,
}

impl Store {
    /// Opens the directory for changes, and makes it where it is missing.
    pub fn create(path: &Path, machine: MachineIdentity) -> Result<Self, StoreError> {
        let file = in_directory(|| make(path), || open_or_create(&path.join("lock"), lock::MODE))?;
        Self::open_for_changes(path, machine, file)
    }

    /// Opens the directory for changes; `None` when it is missing.
    pub fn existing(path: &Path, machine: MachineIdentity) -> Result<Option<Self>, StoreError> {
        if is_missing(path)? {
            return Ok(None);
        }
        match open_or_create(&path.join("lock"), lock::MODE) {
            Ok(file) => Self::open_for_changes(path, machine, file).map(Some),
            Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn open_for_changes(path: &Path, machine: MachineIdentity, lock: File) -> Result<Self, StoreError> {
        let lock = Lock::exclusive(lock, &path.join("lock"), LOCK_WAIT)?;
        Self::open(path, machine, DirectoryAccess::Write, Some(lock))
    }

    /// Shows that the directory, which is missing, can be made, and leaves nothing of it.
    pub fn probe_creation(path: &Path) -> Result<(), StoreError> {
        let missing: Vec<&Path> = path.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
        // Another probe may remove the outer directory while this one makes the inner one.
        in_directory(|| Ok(()), || make(path))?;
        for made in missing {
            // Somebody else has begun to use it.
            if let Err(error) = fs::remove_dir(made) {
                log::debug!("{} stays: {error}", made.display());
                break;
            }
        }
        Ok(())
    }

    /// Opens the directory to look, which changes nothing at all; `None` when it is missing.
    pub fn reading(path: &Path, machine: MachineIdentity) -> Result<Option<Self>, StoreError> {
        if is_missing(path)? {
            return Ok(None);
        }
        let lock = lock::shared(&path.join("lock"), LOCK_WAIT)?;
        match Self::open(path, machine, DirectoryAccess::Read, lock) {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn open(
        path: &Path,
        machine: MachineIdentity,
        access: DirectoryAccess,
        lock: Option<Lock>,
    ) -> Result<Self, StoreError> {
        let handle = File::open(path).map_err(FileError::of("open", path))?;
        let index = LeaseIndex::open(path.join(OWN_DIRECTORY), &handle, &machine);
        Ok(Self { path: path.to_owned(), handle, access, machine, index, draft: None, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The machine of the leases that are made now.
    pub const fn machine(&self) -> &MachineIdentity {
        &self.machine
    }

    /// The leases whose holders have certainly ended, since this machine was restarted in the meantime. Machines that
    /// were cloned from one image may have the same id; on a local disk all leases are this machine's.
    pub fn dead<'a>(&self, scan: &'a DirectoryScan) -> Vec<&'a Lease> {
        let is_alone = is_local(&self.handle).unwrap_or_else(|error| {
            log::warn!("{} may be shared with other machines: {error}", self.path.display());
            false
        });
        let is_dead = |lease: &&Lease| is_alone && self.machine.has_restarted_since(&lease.home.machine);
        scan.leases.iter().filter(is_dead).collect()
    }

    /// The leases of a container, in the order of their addresses, for any interface.
    pub fn leases_of(&mut self, container: &str) -> Result<Vec<Lease>, StoreError> {
        let recorded = self.index.leases_of(container);
        if let Some(leases) = recorded.map(|leases| self.verify(leases)).transpose()?.flatten() {
            return Ok(leases);
        }
        self.index.distrust();
        let mut leases = self.scan()?.leases;
        leases.retain(|lease| lease.owner.container == container);
        leases.sort_by_key(|lease| lease.address);
        Ok(leases)
    }

    /// The leases of an attachment; if there are none, those of old releases, which name no interface.
    pub fn leases_of_attachment(&mut self, attachment: &Attachment) -> Result<Vec<Lease>, StoreError> {
        let all = self.leases_of(attachment.container.as_str())?;
        let owner = Owner::of(attachment);
        let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|lease| lease.owner == owner);
        Ok(if own.is_empty() { others.into_iter().filter(|lease| lease.owner.ifname.is_none()).collect() } else { own })
    }

    /// The leases as they are; `None` when one of them is not as it was recorded.
    fn verify(&self, mut leases: Vec<Lease>) -> Result<Option<Vec<Lease>>, StoreError> {
        for lease in &mut leases {
            match lease::read(&self.path.join(&lease.name))? {
                Some((Some(owner), file)) if owner == lease.owner => lease.found_as(file),
                Some(_) | None => return Ok(None),
            }
        }
        leases.sort_by_key(|lease| lease.address);
        Ok(Some(leases))
    }

    /// Reads every lease.
    pub fn scan(&mut self) -> Result<DirectoryScan, StoreError> {
        let mut recorded = self.index.all();
        let mut scan = DirectoryScan::default();
        for (address, name) in self.names()? {
            match lease::read(&self.path.join(&name))? {
                Some((Some(owner), file)) => {
                    let record = recorded.remove(&name).filter(|record| record.owner == owner);
                    let mut lease =
                        record.unwrap_or(Lease { address, name, owner, file, home: LeaseOrigin::default() });
                    lease.found_as(file);
                    scan.leases.push(lease);
                }
                Some((None, _)) => {
                    scan.unowned.insert(address, name);
                }
                None => {}
            }
        }
        self.index.adopt(&scan.leases);
        Ok(scan)
    }

    /// The addresses with a file, and the files' names.
    fn names(&self) -> Result<Vec<(IpAddr, String)>, StoreError> {
        let failed = || FileError::of("read", &self.path);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Some(address) = parse_ip(&name) else { continue };
            if entry.file_type().map_err(failed())?.is_file() {
                names.push((address, name));
            }
        }
        Ok(names)
    }

    /// Leases an address; `None` if its file exists already.
    pub fn lease(&mut self, address: IpAddr, owner: &Owner, home: &LeaseOrigin) -> Result<Option<Lease>, StoreError> {
        let name = address.to_string();
        let path = self.path.join(&name);
        let draft = self.ensure_draft(owner)?;
        let file = FileId::of(&draft.file().metadata().map_err(FileError::of("stat", &path))?);
        match draft.link(&path) {
            Ok(()) => {}
            Err(error) if error.source.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let lease = Lease { address, name, owner: owner.clone(), file, home: home.clone() };
        self.index.touch();
        self.index.insert(&lease);
        self.remove_draft();
        Ok(Some(lease))
    }

    /// Writes the lease of an owner under no name; all addresses that are tried for it share the draft.
    ///
    /// It is not synchronized to the disk, which would be most of the time of an ADD: what a loss of power
    /// can take is the content, a lease without content has no owner, and no container outlives that.
    fn ensure_draft(&mut self, owner: &Owner) -> Result<&Draft, StoreError> {
        let draft = match self.draft.take().filter(|(drafted, _)| drafted == owner) {
            Some((_, draft)) => draft,
            None => {
                self.index.ensure_directory()?;
                Draft::create_at(&self.own_file(DRAFT), owner.text().as_bytes(), FILE_MODE)?
            }
        };
        let (_, draft) = self.draft.insert((owner.clone(), draft));
        Ok(draft)
    }

    /// Removes the draft. If that fails, the next ADD removes it.
    fn remove_draft(&mut self) {
        if let Some((_, draft)) = self.draft.take()
            && let Err(error) = draft.discard()
        {
            log::warn!("{error}: {}", error.source);
        }
    }

    /// Shows that a lease can be written, and leaves nothing of it.
    pub fn probe(&mut self) -> Result<(), StoreError> {
        self.ensure_draft(&Owner { container: "probe".to_owned(), ifname: None })?;
        self.draft.take().map_or(Ok(()), |(_, draft)| Ok(draft.discard()?))
    }

    /// Hands a lease to the container again, in the namespace where it is now. After a restart of the machine the index alone says
    /// that the lease is in use, so there it must be.
    pub fn keep(&mut self, lease: &Lease, home: &LeaseOrigin) -> Result<(), StoreError> {
        self.index.insert(&Lease { home: home.clone(), ..lease.clone() });
        if self.machine.has_restarted_since(&lease.home.machine) {
            self.index.save(&self.handle, &self.machine)?;
        }
        Ok(())
    }

    /// Removes a lease.
    pub fn release(&mut self, lease: &Lease) -> Result<(), StoreError> {
        self.index.touch();
        remove(&self.path.join(&lease.name))?;
        self.index.remove(lease);
        Ok(())
    }

    /// Removes a file without an owner.
    pub fn remove_unowned(&mut self, name: &str) -> Result<(), StoreError> {
        self.index.touch();
        Ok(remove(&self.path.join(name))?)
    }

    /// Takes back what an ADD did, and nothing else: another's lease of the same address stays.
    pub fn undo(&mut self, done: &[LeaseUndo]) -> Result<(), StoreError> {
        for undo in done.iter().rev() {
            let (LeaseUndo::Made(before) | LeaseUndo::Kept(before)) = undo;
            let now = self.leases_of(&before.owner.container)?;
            let Some(lease) = now.into_iter().find(|lease| lease.is_same_file(before)) else { continue };
            match undo {
                LeaseUndo::Made(_) => self.release(&lease)?,
                LeaseUndo::Kept(before) => self.keep(&lease, &before.home)?,
            }
        }
        Ok(())
    }

    /// The address of a range set that was given last, if that is known.
    pub fn last_reserved(&self, set: usize) -> Option<IpAddr> {
        let path = self.cursor(set);
        match read_if_present(MOST_OF_CURSOR, &path) {
            Ok(text) => text.and_then(|text| parse_ip(std::str::from_utf8(&text).ok()?)),
            Err(error) => {
                log::warn!("Error retrieving last reserved ip: {error}: {}", error.source);
                None
            }
        }
    }

    /// Records which address of a range set was given last.
    pub fn set_last_reserved(&mut self, set: usize, address: IpAddr) -> Result<(), StoreError> {
        self.index.touch();
        Ok(overwrite(&self.cursor(set), address.to_string().as_bytes(), FILE_MODE)?)
    }

    fn cursor(&self, set: usize) -> PathBuf {
        self.path.join(format!("last_reserved_ip.{set}"))
    }

    fn own_file(&self, name: &str) -> PathBuf {
        self.path.join(OWN_DIRECTORY).join(name)
    }
}

/// The index is a cache: where it cannot be written the next look-up reads all leases, and nothing is lost but what [`Store::keep`]
/// has saved before.
impl Drop for Store {
    fn drop(&mut self) {
        if self.access == DirectoryAccess::Read {
            return;
        }
        // Under the lock a draft is ours, or of a process that was killed.
        if let Err(error) = remove(&self.own_file(DRAFT)) {
            log::warn!("{error}: {}", error.source);
        }
        if let Err(error) = self.index.save(&self.handle, &self.machine) {
            log::warn!("the index of the leases is not up to date: {error}: {}", error.details());
        }
    }
}

/// Makes the directory of a network. STATUS makes one and removes it at once, and may do so at any moment.
fn make(path: &Path) -> Result<(), FileError> {
    DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(FileError::of("mkdir", path))
}

/// Whether a path does not exist.
fn is_missing(path: &Path) -> Result<bool, StoreError> {
    Ok(!path.try_exists().map_err(FileError::of("stat", path))?)
}

#[cfg(test)]
mod tests;
