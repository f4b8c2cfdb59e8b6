//! The lock of a directory: `flock(2)` on its file `lock`, as the reference takes it, but not for ever.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::error::StoreError;

/// How long the lock is waited for. An operation holds it for milliseconds.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// The lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the kernel releases the lock when the file is closed")] File);

impl Lock {
    /// Takes the lock for changes, and makes its file where it is missing.
    pub fn exclusive(path: &Path, wait: Duration) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o750).open(path);
        take(file.map_err(StoreError::io("open", path))?, File::try_lock, path, wait)
    }

    /// Takes the lock for looking; `None` when its file is missing.
    pub fn shared(path: &Path, wait: Duration) -> Result<Option<Self>, StoreError> {
        match File::open(path) {
            Ok(file) => take(file, File::try_lock_shared, path, wait).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::io("open", path)(source)),
        }
    }
}

fn take(
    file: File,
    attempt: fn(&File) -> Result<(), TryLockError>,
    path: &Path,
    wait: Duration,
) -> Result<Lock, StoreError> {
    let end = Instant::now() + wait;
    let mut pause = Duration::from_micros(250);
    loop {
        match attempt(&file) {
            Ok(()) => return Ok(Lock(file)),
            Err(TryLockError::Error(source)) => return Err(StoreError::io("lock", path)(source)),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                return Err(StoreError::Locked { path: path.to_owned(), waited: wait, holder: observe_holder(&file) });
            }
            Err(TryLockError::WouldBlock) => sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pid: u32,
    name: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "process {} ({name})", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

fn observe_holder(file: &File) -> Option<Holder> {
    let found = || -> io::Result<Option<u32>> {
        let metadata = file.metadata()?;
        Ok(parse_holder(&fs::read_to_string("/proc/locks")?, metadata.dev(), metadata.ino()))
    };
    let pid = found().inspect_err(|error| log::debug!("/proc/locks: {error}")).ok()??;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim().to_owned());
    Some(Holder { pid, name })
}

/// Finds the holder in proc(5) `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF`.
/// Those who wait stand there too, with an arrow behind the number.
fn parse_holder(text: &str, device: u64, inode: u64) -> Option<u32> {
    let (major, minor) =
        (((device >> 8) & 0xfff) | ((device >> 32) & !0xfff), (device & 0xff) | ((device >> 12) & !0xff));
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    let holds = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, _, pid, found, ..] if found == place => pid.parse().ok(),
        _ => None,
    };
    text.lines().find_map(holds).filter(|pid| *pid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(30);

    #[test]
    fn a_lock_that_is_held_is_reported_with_its_holder() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("lock");
        let held = Lock::exclusive(&path, SOON).expect("free");
        assert_eq!(path.metadata().expect("there").mode() & 0o777, 0o750 & !umask());
        let error = Lock::exclusive(&path, Duration::from_secs(1)).expect_err("held");
        assert_eq!(error.to_string(), format!("could not get the lock {} within 1 s", path.display()));
        let us = format!("process {} (", std::process::id());
        assert!(error.cause().starts_with(&us) && error.cause().ends_with(") holds it"), "{}", error.cause());
        assert!(matches!(Lock::shared(&path, SOON), Err(StoreError::Locked { .. })));
        drop(held);
        let first = Lock::shared(&path, SOON).expect("free");
        let second = Lock::shared(&path, SOON).expect("shared");
        assert!(first.is_some() && second.is_some());
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
        assert!(Lock::shared(&path, SOON).expect("no failure").is_none());
        assert!(!path.exists());
    }

    #[test]
    fn the_lock_waits_for_its_holder() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("lock");
        let held = Lock::exclusive(&path, SOON).expect("free");
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || Lock::exclusive(&path, LOCK_WAIT).is_ok()
        });
        sleep(SOON);
        drop(held);
        assert!(waiting.join().expect("no panic"));
    }

    #[test]
    fn the_holder_is_found_by_device_and_inode() {
        let text = "1: POSIX  ADVISORY  WRITE 11 fe:00:131 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 12 fe:00:131 0 EOF\n\
                    3: FLOCK  ADVISORY  WRITE 13 fe:01:131 0 EOF\n4: FLOCK  ADVISORY  WRITE 14 fe:00:131 0 EOF\n\
                    5: FLOCK  ADVISORY  READ 0 00:1b:7 0 EOF\n";
        assert_eq!(parse_holder(text, 0xfe00, 131), Some(14));
        assert_eq!(parse_holder(text, 0x1b, 7), None, "a process of another PID namespace shows as 0");
        assert_eq!(parse_holder(text, 0xfe00, 132), None);
    }
}
