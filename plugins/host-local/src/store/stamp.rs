//! Proves that a directory has not changed since its index was written.
//!
//! Two changes within one tick of the kernel's clock have the same time, so the time alone proves nothing. But adding,
//! removing or renaming an entry sets both times of the directory, of modification and of status change, to the same
//! value. So [`DirectoryStamp::put`] makes the two times *differ*: it sets the modification time back by a minute. As
//! long as both times are unchanged, no entry was added or removed, whatever the clock did. Inode and device show that
//! the directory is not a copy; the boot shows that what was written was not lost in a power failure.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use super::lease::MachineIdentity;

/// The difference between the two times of a stamped directory.
const SET_BACK: Duration = Duration::from_secs(60);

/// The state of a directory, as a line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryStamp(String);

impl DirectoryStamp {
    /// The state of a directory as it is; `None` when it proves nothing.
    pub fn of(directory: &File, machine: &MachineIdentity) -> io::Result<Option<Self>> {
        let metadata = directory.metadata()?;
        Ok(machine.boot.as_ref().filter(|_| differ(&metadata)).map(|boot| {
            let (device, inode) = (metadata.dev(), metadata.ino());
            let (modified, changed) =
                (time(metadata.mtime(), metadata.mtime_nsec()), time(metadata.ctime(), metadata.ctime_nsec()));
            Self(format!("#host-local index 1\t{boot}\t{device}\t{inode}\t{modified}\t{changed}\n"))
        }))
    }

    /// Makes the two times of a directory differ, and takes its state.
    pub fn put(directory: &File, machine: &MachineIdentity) -> io::Result<Option<Self>> {
        directory.set_modified(SystemTime::now() - SET_BACK)?;
        Self::of(directory, machine)
    }

    /// The text of the stamp.
    pub fn text(&self) -> &str {
        &self.0
    }
}

fn differ(metadata: &Metadata) -> bool {
    (metadata.mtime(), metadata.mtime_nsec()) != (metadata.ctime(), metadata.ctime_nsec())
}

fn time(seconds: i64, nanoseconds: i64) -> String {
    format!("{seconds}.{nanoseconds:09}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine() -> MachineIdentity {
        MachineIdentity { id: None, boot: Some("b1".to_owned()) }
    }

    #[test]
    fn every_change_within_one_tick_of_the_clock_shows() {
        let directory = tempfile::tempdir().expect("directory");
        let handle = File::open(directory.path()).expect("open");
        let file = directory.path().join("x");
        for _ in 0..200 {
            let stamp = DirectoryStamp::put(&handle, &machine()).expect("put").expect("a proof");
            assert_eq!(
                DirectoryStamp::of(&handle, &machine()).expect("stat"),
                Some(stamp.clone()),
                "nothing has changed"
            );
            fs::write(&file, "").expect("add");
            assert_ne!(DirectoryStamp::of(&handle, &machine()).expect("stat"), Some(stamp), "an entry has come");
            let stamp = DirectoryStamp::put(&handle, &machine()).expect("put").expect("a proof");
            fs::remove_file(&file).expect("remove");
            assert_ne!(DirectoryStamp::of(&handle, &machine()).expect("stat"), Some(stamp), "an entry has gone");
        }
    }

    #[test]
    fn a_change_below_the_directory_does_not_matter() {
        let directory = tempfile::tempdir().expect("directory");
        let handle = File::open(directory.path()).expect("open");
        fs::create_dir(directory.path().join("own")).expect("mkdir");
        let stamp = DirectoryStamp::put(&handle, &machine()).expect("put");
        fs::write(directory.path().join("own/x"), "").expect("add");
        assert_eq!(DirectoryStamp::of(&handle, &machine()).expect("stat"), stamp);
    }

    #[test]
    fn a_copy_and_another_boot_show() {
        let (here, there) = (tempfile::tempdir().expect("directory"), tempfile::tempdir().expect("directory"));
        let handle = File::open(here.path()).expect("open");
        let stamp = DirectoryStamp::put(&handle, &machine()).expect("put");
        let copy = File::open(there.path()).expect("open");
        copy.set_modified(handle.metadata().and_then(|metadata| metadata.modified()).expect("time")).expect("set");
        assert_ne!(DirectoryStamp::of(&copy, &machine()).expect("stat"), stamp);
        let later = MachineIdentity { boot: Some("b2".to_owned()), ..machine() };
        assert_ne!(DirectoryStamp::of(&handle, &later).expect("stat"), stamp);
        assert_eq!(
            DirectoryStamp::of(&handle, &MachineIdentity::default()).expect("stat"),
            None,
            "an unknown boot proves nothing"
        );
    }

    #[test]
    fn a_directory_as_it_was_made_proves_nothing() {
        let directory = tempfile::tempdir().expect("directory");
        let handle = File::open(directory.path()).expect("open");
        fs::write(directory.path().join("x"), "").expect("add");
        assert_eq!(DirectoryStamp::of(&handle, &machine()).expect("stat"), None);
    }
}
