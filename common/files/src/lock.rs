//! A lock by flock(2), with a time limit. The kernel releases it when the process ends.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cni_core::error::{Code, Failure};

use crate::error::FileError;
use crate::holder::{LockHolders, holders};

/// The pauses between two attempts: at first short, since most hold a lock for less than a millisecond.
const FIRST_PAUSE: Duration = Duration::from_micros(250);
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// A lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    has_waited: bool,
    #[expect(dead_code, reason = "the kernel releases the lock when the file is closed")]
    file: File,
}

/// Errors of taking a lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// An operation on its file failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Other processes held it during the whole wait.
    #[error("gave up after {waited:?}: the lock {} is held by {holders}", path.display())]
    Held {
        path: PathBuf,
        /// How long the process waited.
        waited: Duration,
        holders: LockHolders,
    },
}

impl Failure for LockError {
    fn code(&self) -> Code {
        match self {
            Self::File(error) => error.code(),
            Self::Held { .. } => Code::TryAgain,
        }
    }
}

impl Lock {
    /// Whether another process held the lock at first.
    pub const fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Takes the lock of an open file exclusively; `path` is for the message.
    ///
    /// # Errors
    /// [`LockError::Held`] when it does not become free within `patience`.
    pub fn exclusive(file: File, path: &Path, patience: Duration) -> Result<Self, LockError> {
        take(file, File::try_lock, path, patience)
    }

    /// Takes the lock of an open file, shared with others who take it so.
    pub fn shared(file: File, path: &Path, patience: Duration) -> Result<Self, LockError> {
        take(file, File::try_lock_shared, path, patience)
    }
}

fn take(
    file: File,
    attempt: fn(&File) -> Result<(), TryLockError>,
    path: &Path,
    patience: Duration,
) -> Result<Lock, LockError> {
    let holders = || file.metadata().map_or_else(|_| LockHolders::default(), |metadata| holders(&metadata));
    let has_waited = wait(|| attempt(&file), holders, path, patience)?;
    Ok(Lock { has_waited, file })
}

/// Tries to take a lock until it succeeds or `patience` is at its end. Returns whether others held it.
pub(crate) fn wait(
    attempt: impl Fn() -> Result<(), TryLockError>,
    holders: impl Fn() -> LockHolders,
    path: &Path,
    patience: Duration,
) -> Result<bool, LockError> {
    let end = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt() {
            Ok(()) => return Ok(pause != FIRST_PAUSE),
            Err(TryLockError::Error(source)) => return Err(FileError::of("lock", path)(source).into()),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                return Err(LockError::Held { path: path.to_owned(), waited: patience, holders: holders() });
            }
            Err(TryLockError::WouldBlock) => sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(30);

    fn open(path: &Path) -> File {
        File::options().create(true).truncate(false).write(true).open(path).expect("opened")
    }

    #[test]
    fn a_lock_that_is_held_is_reported_with_its_holder() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("lock");
        let first = Lock::exclusive(open(&path), &path, SOON).expect("free");
        assert!(!first.has_waited());
        let error = Lock::exclusive(open(&path), &path, SOON).expect_err("held");
        let us = format!("gave up after 30ms: the lock {} is held by process {} (", path.display(), std::process::id());
        assert!(error.to_string().starts_with(&us), "{error}");
        assert_eq!(error.code(), Code::TryAgain);
        assert!(matches!(Lock::shared(open(&path), &path, SOON), Err(LockError::Held { .. })));
        drop(first);
        let (one, two) = (Lock::shared(open(&path), &path, SOON), Lock::shared(open(&path), &path, SOON));
        assert!(one.is_ok() && two.is_ok());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Lock::exclusive(open(&path), &path, Duration::from_secs(10)));
            sleep(SOON);
            drop((one, two));
            assert!(waiting.join().expect("no panic").expect("free in time").has_waited());
        });
    }
}
