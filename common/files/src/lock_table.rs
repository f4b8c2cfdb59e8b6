//! Many locks in one file, for short-lived objects: no lock has to be created or removed.
//!
//! Each lock is a lock on one byte by fcntl(2) (`F_SETLK`), far beyond the end of the empty file. The kernel releases
//! it when the process ends or closes the file. A process does not exclude itself.

use std::fs::{File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::directory::PrivateDirectory;
use crate::lock::{LockError, LockHolders, wait};

/// The locks of one file in a private directory, which stays: dropping it releases the locks of this process.
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
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.directory.open_file(self.name)?),
        };
        wait(|| attempt(file, byte(number)), || holder(file, number), &path, patience).map(drop)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(self.name)
    }
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
    let (l_type, l_whence) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
    libc::flock { l_type, l_whence, l_start: number.into(), l_len: 1, l_pid: 0 }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
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
