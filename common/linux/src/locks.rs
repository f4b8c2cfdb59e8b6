//! The locks of what one process at a time may work on, in one file below `/run`.

use std::io::ErrorKind;
use std::time::Duration;

use cni_files::{FileError, LockError, LockTable, PrivateDirectory, RUN_DIRECTORY};
use cni_plugin::lock::LockName;

const FILE: &str = "work.lock";

/// How long is waited for one of them.
const PATIENCE: Duration = Duration::from_secs(10);

/// The locks that this process holds, until they are dropped.
#[derive(Debug)]
pub struct Locks(LockTable);

impl Default for Locks {
    fn default() -> Self {
        Self(LockTable::new(PrivateDirectory::new(RUN_DIRECTORY), FILE))
    }
}

impl Locks {
    /// Takes a lock. A host whose run directory cannot be written to has none.
    ///
    /// # Errors
    /// [`LockError::Held`] when it does not become free.
    pub fn take(&mut self, name: &LockName) -> Result<(), LockError> {
        match self.0.exclusive(name.number(), PATIENCE) {
            Err(LockError::File(error)) if is_without_place(&error) => {
                log::warn!("no lock is taken: {error}: {}", error.source);
                Ok(())
            }
            taken => taken,
        }
    }
}

/// Whether the run directory cannot be written to, by nobody or not by this process.
pub fn is_without_place(error: &FileError) -> bool {
    [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied].contains(&error.source.kind())
}
