//! What can go wrong with the directory of the leases.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_core::error::{Code, Failure};

use super::lock::Holder;

/// A file that cannot be worked with, or a lock that is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation on a file failed.
    #[error("{verb} {}", path.display())]
    Io {
        /// The operation.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// Another process has held the lock all the time.
    #[error("could not get the lock {} within {} s", path.display(), waited.as_secs())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
        /// Who has it, if that shows.
        holder: Option<Holder>,
    },
}

impl StoreError {
    /// Turns the error of an operation on a file into one that names both.
    pub fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }

    /// The cause in one line.
    pub fn cause(&self) -> String {
        match self {
            Self::Io { source, .. } => source.to_string(),
            Self::Locked { holder: Some(holder), .. } => format!("{holder} holds it"),
            Self::Locked { holder: None, .. } => "its holder does not show in /proc/locks".to_owned(),
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

    fn details(&self) -> String {
        self.cause()
    }
}
