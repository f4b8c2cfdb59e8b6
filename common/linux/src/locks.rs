//! Locks below `/run`. Locks of attachments and networks are in one file and held to the end of the process; locks for
//! a short change have a file each.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use cni_files::{FileError, Lock, LockError, LockTable, PrivateDirectory, RUN_DIRECTORY};
use cni_kernel::netns::{NetnsScope, OWN_NETNS};
use cni_plugin::lock::LockName;

const FILE: &str = "work.lock";

/// The time limit for a lock.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The time limit after one lock has timed out: otherwise each lock would take ten seconds.
const IMPATIENCE: Duration = Duration::from_secs(1);

/// The locks that this process holds, until they are dropped.
#[derive(Debug)]
pub(crate) struct Locks {
    table: LockTable,
    patience: Duration,
    /// Whether to wait for locks that others hold.
    is_waiting: bool,
}

impl Default for Locks {
    fn default() -> Self {
        Self { table: LockTable::new(PrivateDirectory::new(RUN_DIRECTORY), FILE), patience: PATIENCE, is_waiting: true }
    }
}

impl Locks {
    /// Sets whether to wait for locks that others hold; by default, yes.
    pub const fn set_waiting(&mut self, is_waiting: bool) {
        self.is_waiting = is_waiting;
    }

    /// Takes a lock; does without if the run directory cannot be written.
    ///
    /// # Errors
    /// [`LockError::Held`] if it does not become free.
    pub fn take(&mut self, name: &LockName) -> Result<(), LockError> {
        let patience = if self.is_waiting { self.patience } else { Duration::ZERO };
        let taken = self.table.exclusive(name.number(), patience);
        if let Err(LockError::Held { .. }) = taken
            && self.is_waiting
        {
            self.patience = IMPATIENCE;
        }
        match taken {
            Err(LockError::File(error)) if is_without_place(&error) => {
                log::warn!("no lock is taken: {error}: {}", error.source);
                Ok(())
            }
            taken => taken,
        }
    }
}

/// Takes a lock with its own file, which is released when it is dropped. If the run directory cannot be written, there
/// is none.
pub(crate) fn take_short(name: &str, patience: Duration) -> Result<Option<Lock>, LockError> {
    let directory = PrivateDirectory::new(RUN_DIRECTORY);
    match directory.open_file(name) {
        Ok(file) => Lock::exclusive(file, &directory.path().join(name), patience).map(Some),
        Err(error) if is_without_place(&error) => {
            log::warn!("no lock is taken: {error}: {}", error.source);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The same for a lock of a network namespace, which is named by its inode.
pub(crate) fn take_in_netns(kind: &str, scope: &NetnsScope, patience: Duration) -> Result<Option<Lock>, LockError> {
    let netns = scope.run(|| fs::metadata(OWN_NETNS)).and_then(|found| found);
    let netns = netns.map_err(FileError::of("stat", OWN_NETNS.as_ref()))?;
    take_short(&format!("{kind}-{}.lock", netns.ino()), patience)
}

/// Whether the run directory cannot be written, in general or by this process.
pub(crate) fn is_without_place(error: &FileError) -> bool {
    [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied].contains(&error.source.kind())
}

/// The time limit for a retry lock. After that, the change is tried without it.
const RETRY_PATIENCE: Duration = Duration::from_secs(5);

/// A lock for processes whose change of nf_tables was refused because another change came first, until it is dropped.
///
/// A change is bound to the state that was read: the kernel refuses it if anybody else has changed something since. If
/// a hundred processes start at once, one succeeds each time, and the others read everything again. So a process that
/// was refused takes this lock until its change is made. Then at most one of these plugins competes with programs that
/// do not know the lock.
#[derive(Debug)]
pub(crate) struct RetryLock(#[expect(dead_code, reason = "it is released when it is dropped")] Option<Lock>);

impl RetryLock {
    /// Takes it.
    pub(crate) fn take(scope: &NetnsScope) -> Self {
        let lock = take_in_netns("late", scope, RETRY_PATIENCE).unwrap_or_else(|error| {
            log::debug!("nf_tables are changed again without a lock: {error}");
            None
        });
        Self(lock)
    }
}
