//! The error of an operation on a file.

use std::io;
use std::path::{Path, PathBuf};

use cni_core::error::{Code, Failure};

/// An operation on a file that failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {verb} {}", path.display())]
pub struct FileError {
    pub verb: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

impl FileError {
    /// Returns a function that adds the operation and the file to the system's error.
    pub fn of(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { verb, path: path.to_owned(), source }
    }

    /// Whether the file exists, but cannot be trusted: it is not a regular file, belongs to another user, or is below what is no
    /// directory.
    pub fn is_untrusted(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::Other | io::ErrorKind::NotADirectory)
    }
}

impl Failure for FileError {
    fn code(&self) -> Code {
        Code::Io
    }
}
