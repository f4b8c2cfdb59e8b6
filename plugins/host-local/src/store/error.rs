//! Errors of the directory of the leases.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_core::error::{Code, Failure};
use cni_files::{FileError, LockError, LockHolders};

/// An operation on a file that failed, or a lock that cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation on a file failed.
    #[error("{verb} {}", path.display())]
    Io {
        verb: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Another process has held the lock all the time.
    #[error("gave up after {waited:?}: the lock {} is held by {holders}", path.display())]
    Locked {
        path: PathBuf,
        /// How long the process waited.
        waited: Duration,
        holders: LockHolders,
    },
}

impl StoreError {
    /// Turns the error of an operation on a file into one that names both.
    pub fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }
}

impl From<FileError> for StoreError {
    fn from(error: FileError) -> Self {
        let FileError { verb, path, source } = error;
        Self::Io { verb, path, source }
    }
}

impl From<LockError> for StoreError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::File(error) => error.into(),
            LockError::Held { path, waited, holders } => Self::Locked { path, waited, holders },
        }
    }
}

impl Failure for StoreError {
    fn code(&self) -> Code {
        match self {
            Self::Io { .. } => Code::Io,
            Self::Locked { .. } => Code::TryAgain,
        }
    }
}
