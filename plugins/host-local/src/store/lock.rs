//! The lock of a directory, `flock(2)` on its file `lock`, as in the reference, but with a time limit; and the errors of its files.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_core::error::{Code, Failure};
use cni_files::{FileError, Lock, LockError, open_to_read};

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
    #[error(transparent)]
    Locked(LockError),
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
            held @ LockError::Held { .. } => Self::Locked(held),
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

/// The time limit for the lock. An operation holds it for milliseconds.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The mode with which the reference makes the file.
pub const MODE: u32 = 0o750;

/// Takes the lock for looking; `None` when its file is missing.
pub fn shared(path: &Path, wait: Duration) -> Result<Option<Lock>, StoreError> {
    match open_to_read(path) {
        Ok(file) => Ok(Some(Lock::shared(file, path, wait)?)),
        Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the holder of the lock is the test's own process")]
mod tests {
    use super::*;
    use cni_files::open_or_create;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    const SOON: Duration = Duration::from_millis(30);

    #[test]
    fn a_lock_that_is_held_is_reported_with_its_holder() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("lock");
        let open = || open_or_create(&path, MODE).expect("opened");
        let _held = Lock::exclusive(open(), &path, SOON).expect("free");
        assert_eq!(path.metadata().expect("there").mode() & 0o777, MODE & !umask());
        let error = shared(&path, SOON).expect_err("held");
        let us = format!("gave up after 30ms: the lock {} is held by process {} (", path.display(), std::process::id());
        assert!(error.to_string().starts_with(&us), "{error}");
        assert!(matches!(error, StoreError::Locked { .. }));
    }

    fn umask() -> u32 {
        let status = fs::read_to_string("/proc/self/status").expect("proc");
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).expect("a kernel of today");
        u32::from_str_radix(line.trim(), 8).expect("octal")
    }

    #[test]
    fn looking_makes_no_file() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("lock");
        assert!(shared(&path, SOON).expect("no failure").is_none());
        assert!(!path.exists());
    }
}
