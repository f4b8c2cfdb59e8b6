//! Many locks in one file, for short-lived objects: no lock has to be created or removed.
//!
//! Each lock is a lock on one byte by fcntl(2) (`F_SETLK`), far beyond the end of the empty file. The kernel releases
//! it when the process ends or closes the file. A process does not exclude itself.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::directory::PrivateDirectory;
use crate::file::remove;
use crate::holder::LockHolders;
use crate::lock::{LockError, wait};

/// The locks of one file in a private directory. Dropping it releases the locks of this process. If no other process
/// holds a lock then, the file is removed, and the directory if it is empty.
#[derive(Debug)]
pub struct LockTable {
    directory: PrivateDirectory,
    name: &'static str,
    file: Option<File>,
}

impl LockTable {
    /// The locks of a file, which is made when the first one is taken.
    pub const fn new(directory: PrivateDirectory, name: &'static str) -> Self {
        Self { directory, name, file: None }
    }

    /// Takes the lock of a number exclusively, also one that it has taken before: another table of this process releases it
    /// when it closes the file.
    ///
    /// # Errors
    /// [`LockError::Held`] when it does not become free within `patience`, and [`LockError::File`] when the file cannot be made.
    pub fn exclusive(&mut self, number: u32, patience: Duration) -> Result<(), LockError> {
        let path = self.path();
        loop {
            let file = match self.file.take() {
                Some(file) => file,
                None => self.directory.open_file(self.name)?,
            };
            let taken = wait(|| attempt(&file, byte(number)), || holder(&file, number), &path, patience);
            // The holder of the last lock has removed the file, and a lock of a removed file excludes nobody.
            if is_same(&file, &path) {
                self.file = Some(file);
                return taken.map(drop);
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(self.name)
    }
}

impl Drop for LockTable {
    /// Locks all bytes before it removes the file, so no other process can take a lock in between.
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        let path = self.path();
        if attempt(file, every_byte()).is_err() || !is_same(file, &path) {
            return;
        }
        match remove(&path) {
            Ok(()) => drop(self.directory.remove_if_empty()),
            Err(error) => log::debug!("{error}: {}", error.source),
        }
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(identity).ok() == fs::symlink_metadata(path).map(identity).ok()
}

fn attempt(file: &File, range: libc::flock) -> Result<(), TryLockError> {
    match fcntl(file, FcntlArg::F_SETLK(&range)) {
        Ok(_) => Ok(()),
        Err(Errno::EAGAIN | Errno::EACCES) => Err(TryLockError::WouldBlock),
        Err(errno) => Err(TryLockError::Error(io::Error::from(errno))),
    }
}

/// The kernel names one process; none when it has just ended, or is in another PID namespace.
fn holder(file: &File, number: u32) -> LockHolders {
    let mut lock = byte(number);
    let asked = fcntl(file, FcntlArg::F_GETLK(&mut lock));
    let is_held = asked.is_ok() && i32::from(lock.l_type) != libc::F_UNLCK;
    LockHolders::of(u32::try_from(lock.l_pid).ok().filter(|pid| is_held && *pid != 0))
}

fn byte(number: u32) -> libc::flock {
    range(number.into(), 1)
}

/// A length of 0 is one without end (fcntl(2)).
fn every_byte() -> libc::flock {
    range(0, 0)
}

fn range(l_start: i64, l_len: i64) -> libc::flock {
    let (l_type, l_whence) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
    libc::flock { l_type, l_whence, l_start, l_len, l_pid: 0 }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use cni_core::error::{Code, Failure as _};

    use super::*;

    const SOON: Duration = Duration::from_millis(30);

    fn table(root: &Path) -> LockTable {
        LockTable::new(PrivateDirectory::new(root.join("private")), "locks")
    }

    /// Takes a lock as another process would: this kind belongs to the open file, and conflicts with the others.
    fn foreign(table: &LockTable, number: u32) -> File {
        let file = table.directory.open_file(table.name).expect("opened");
        fcntl(&file, FcntlArg::F_OFD_SETLK(&byte(number))).expect("free");
        file
    }

    #[test]
    fn a_number_excludes_itself_alone_and_is_waited_for() {
        let root = tempfile::tempdir().expect("directory");
        let mut table = table(root.path());
        let held = foreign(&table, 7);
        for number in [0, 6, 8, u32::MAX] {
            table.exclusive(number, SOON).expect("free");
        }
        let error = table.exclusive(7, SOON).expect_err("held");
        let text = format!("gave up after 30ms: the lock {} is held by an unknown process", table.path().display());
        assert_eq!((error.to_string(), error.code()), (text, Code::TryAgain));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| table.exclusive(7, Duration::from_secs(10)).is_ok());
            thread::sleep(SOON);
            drop(held);
            assert!(waiting.join().expect("no panic"));
        });
        assert_eq!(fs::metadata(table.path()).expect("there").len(), 0, "locks take no room");
    }

    #[test]
    fn the_last_one_removes_the_file() {
        let root = tempfile::tempdir().expect("directory");
        let mut first = table(root.path());
        [1, 2].iter().for_each(|number| first.exclusive(*number, SOON).expect("free"));
        let path = first.path();
        let other = foreign(&first, 3);
        drop(first);
        assert!(path.exists(), "another process holds a lock of the file");
        drop(other);
        let mut second = table(root.path());
        [1, 2, 3].iter().for_each(|number| second.exclusive(*number, SOON).expect("free again"));
        drop(second);
        assert_eq!(fs::read_dir(root.path()).expect("listed").count(), 0);
    }

    #[test]
    fn a_lock_of_a_file_that_was_removed_is_taken_again() {
        let root = tempfile::tempdir().expect("directory");
        let mut table = table(root.path());
        table.exclusive(1, SOON).expect("free");
        fs::remove_file(table.path()).expect("removed");
        let held = foreign(&table, 2);
        let error = table.exclusive(2, SOON).expect_err("held in the new file");
        assert_eq!(error.code(), Code::TryAgain);
        drop(held);
        table.exclusive(2, SOON).expect("free");
        assert!(table.file.as_ref().is_some_and(|file| is_same(file, &table.path())));
    }

    #[test]
    fn a_lock_that_another_table_of_the_process_has_released_is_taken_again() {
        let root = tempfile::tempdir().expect("directory");
        let [mut first, mut second] = [table(root.path()), table(root.path())];
        first.exclusive(1, SOON).expect("free");
        second.exclusive(2, SOON).expect("free");
        drop(second);
        first.exclusive(1, SOON).expect("free");
        let file = first.directory.open_file(first.name).expect("opened");
        assert_eq!(fcntl(&file, FcntlArg::F_OFD_SETLK(&byte(1))), Err(Errno::EAGAIN));
    }
}
