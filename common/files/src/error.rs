//! What can go wrong with a file.

use std::io;
use std::path::{Path, PathBuf};

use cni_core::error::{Code, Failure};

/// An operation on a file that failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {verb} {}", path.display())]
pub struct FileError {
    /// The operation.
    pub verb: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The system's word.
    #[source]
    pub source: io::Error,
}

impl FileError {
    /// Turns the error of an operation into one that names the operation and the file.
    pub fn of(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { verb, path: path.to_owned(), source }
    }
}

impl Failure for FileError {
    fn code(&self) -> Code {
        Code::Io
    }
}
