//! A lock by flock(2), with a time limit. The kernel releases it when the process ends, and tells in `/proc/locks` (proc(5)) which
//! processes hold it.

use std::fmt;
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cni_core::error::{Code, Failure};
use nix::sys::stat::{major, minor};

use crate::file::FileError;

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

/// The processes that hold a lock. The kernel does not show those in another PID namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockHolders(Vec<LockHolder>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct LockHolder {
    pid: u32,
    name: Option<String>,
}

impl LockHolders {
    /// Whether no holder was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These processes.
    pub(crate) fn of(pids: impl IntoIterator<Item = u32>) -> Self {
        let name = |pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned());
        Self(pids.into_iter().map(|pid| LockHolder { pid, name: name(pid) }).collect())
    }
}

/// How often the list is read until it shows a holder. The kernel writes the list in pieces and continues at the next
/// number, so an entry is skipped if an earlier one is removed in between (`fs/locks.c`).
const LOOKS: u32 = 5;

/// Finds the processes that hold a flock(2) lock on a file.
pub fn holders(file: &Metadata) -> LockHolders {
    let mut looks = (0..LOOKS).map(|_| look(file));
    looks.find(|found| !found.is_empty()).unwrap_or_default()
}

fn look(file: &Metadata) -> LockHolders {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_else(|error: io::Error| {
        log::debug!("cannot find out who holds the lock: /proc/locks: {error}");
        String::new()
    });
    LockHolders::of(pids(&locks, file.dev(), file.ino()))
}

/// Finds the holders in lines like `1: FLOCK  ADVISORY  WRITE 1234 00:19:5678 0 EOF`. A process that waits
/// has `->` in front of its kind; one of another PID namespace has the number 0.
fn pids(locks: &str, device: u64, inode: u64) -> Vec<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let holder = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, _, pid, found, ..] if found == file => pid.parse().ok().filter(|pid| *pid != 0),
        _ => None,
    };
    locks.lines().filter_map(holder).collect()
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "process {} ({name})", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

impl fmt::Display for LockHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = &self.0[..] else { return f.write_str("an unknown process") };
        write!(f, "{first}")?;
        rest.iter().try_for_each(|holder| write!(f, ", {holder}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::makedev;

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

    #[test]
    fn the_holder_is_distinguished_from_those_who_wait_and_from_other_files() {
        let locks = "\
1: FLOCK  ADVISORY  WRITE 17 00:19:42 0 EOF
1: -> FLOCK  ADVISORY  WRITE 18 00:19:42 0 EOF
2: POSIX  ADVISORY  WRITE 19 00:19:42 0 EOF
3: FLOCK  ADVISORY  READ 20 fe:00:42 0 EOF
4: FLOCK  ADVISORY  READ 21 fe:00:42 0 EOF
5: FLOCK  ADVISORY  READ 0 00:1b:7 0 EOF
";
        assert_eq!(pids(locks, makedev(0, 0x19), 42), [17]);
        assert_eq!(pids(locks, makedev(0xfe, 0), 42), [20, 21]);
        assert_eq!(pids(locks, makedev(0, 0x19), 43), [0; 0]);
        assert_eq!(pids(locks, makedev(0, 0x1b), 7), [0; 0], "a process of another PID namespace");
    }

    #[test]
    fn a_lock_of_this_process_shows() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let metadata = file.as_file().metadata().expect("there");
        assert_eq!(holders(&metadata).to_string(), "an unknown process");
        file.as_file().lock().expect("locked");
        let (mine, found) = (format!("process {} (", std::process::id()), holders(&metadata).to_string());
        assert!(found.starts_with(&mine), "{found}");
    }
}
