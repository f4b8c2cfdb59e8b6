//! Small operations on files, each with an error that names the file.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::error::StoreError;

/// Reads a file.
///
/// # Errors
/// [`StoreError`] names the file.
pub fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    fs::read(path).map_err(StoreError::io("open", path))
}

/// Reads a file; `None` when it is missing.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::io("open", path)(source)),
    }
}

/// Whether there is nothing at a path.
pub fn is_missing(path: &Path) -> Result<bool, StoreError> {
    path.try_exists().map(|exists| !exists).map_err(StoreError::io("stat", path))
}

/// Removes a file, and accepts that it is gone.
pub fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(StoreError::io("remove", path)(source)),
    }
}

/// Makes a new file with a content. What an earlier process has left there is removed, not written over:
/// it may have got another name in the meantime.
pub fn write_new(path: &Path, content: &[u8]) -> Result<File, StoreError> {
    let open = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let opened = open().or_else(|error| {
        if error.kind() == ErrorKind::AlreadyExists { fs::remove_file(path).and_then(|()| open()) } else { Err(error) }
    });
    let mut file = opened.map_err(StoreError::io("create", path))?;
    match file.write_all(content) {
        Ok(()) => Ok(file),
        Err(source) => {
            remove(path)?;
            Err(StoreError::io("write", path)(source))
        }
    }
}

/// Puts a content in place of a file's, complete or not at all.
pub fn replace(draft: &Path, path: &Path, content: &[u8]) -> Result<(), StoreError> {
    write_new(draft, content)?;
    let renamed = fs::rename(draft, path).map_err(StoreError::io("write", path));
    if renamed.is_err() {
        remove(draft)?;
    }
    renamed
}

/// Puts a content over a file's. A crash may leave parts of both, so it must tell by itself whether it is
/// whole; in return a file system has nothing to flush.
pub fn write_over(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let mut file = open.map_err(StoreError::io("open", path))?;
    let written = file.write_all(content).and_then(|()| file.set_len(content.len() as u64));
    written.map_err(StoreError::io("write", path))
}
