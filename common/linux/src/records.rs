//! Keeps the records of the host as files below `/run`.
//!
//! The files are in a directory of the boot and the host's network namespace, with one directory for each kind. No
//! lock is held: each file is written beside those directories and then renamed into its place. The directories stay, until the next boot where `/run` is kept in memory.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use cni_core::error::{Error, Failure as _};
use cni_core::fail;
use cni_files::{Draft, FileError, PrivateDirectory, RUN_DIRECTORY};
use cni_kernel::netlink::netns_cookie;
use cni_model::record::{RecordKey, RecordKind};
use cni_plugin::attachment_record::ATTACHMENTS;
use cni_plugin::records::Records;
use nix::time::{ClockId, clock_gettime};

use crate::locks::is_without_place;

/// The name of the directory if the kernel has no cookies of namespaces, so that there is only one host.
const ONLY_HOST: &str = "host";

/// The records of one network namespace.
#[derive(Debug)]
pub struct RunRecords {
    root: PrivateDirectory,
    /// The directory of the boot and the namespace, once it is known.
    directory: Option<PrivateDirectory>,
    /// Whether the directory is known to be one that nobody else can have written into.
    is_verified: bool,
    /// Whether what killed processes have left is to be removed.
    is_untidy: bool,
}

impl Default for RunRecords {
    /// The records of the network namespace in which one of them is first asked for.
    fn default() -> Self {
        Self { root: PrivateDirectory::new(RUN_DIRECTORY), directory: None, is_verified: false, is_untidy: false }
    }
}

impl Drop for RunRecords {
    /// Removes what killed processes have begun to write, once for all records that were removed.
    fn drop(&mut self) {
        if let (true, Some(drafts)) = (self.is_untidy, &self.directory)
            && let Err(error) = Draft::remove_dead(drafts.path())
        {
            log::warn!("{error}: {}", error.details());
        }
    }
}

impl RunRecords {
    fn directory(&mut self) -> Result<&PrivateDirectory, Error> {
        let directory = match self.directory.take() {
            Some(directory) => directory,
            None => self.root.below(&identity()?.unwrap_or_else(|| ONLY_HOST.to_owned()).replace(':', "-")),
        };
        Ok(self.directory.insert(directory))
    }

    /// The directory of the records, which may be missing.
    pub fn path(&mut self) -> Result<PathBuf, Error> {
        Ok(self.directory()?.path().to_owned())
    }

    /// Whether there are records of attachments of this boot, and all of them belong to other network namespaces.
    pub fn are_elsewhere(&mut self) -> Result<bool, Error> {
        let boot = format!("{}-", cni_files::boot_id()?);
        let has_any =
            |directory: &PrivateDirectory| directory.below(ATTACHMENTS.as_str()).names().map(|names| !names.is_empty());
        let own = self.directory()?.clone();
        if has_any(&own)? {
            return Ok(false);
        }
        let names = self.root.names()?;
        let all = names.iter().filter(|name| name.starts_with(&boot)).map(|name| self.root.below(name));
        // The own one may get its first record between the two looks.
        for other in all.filter(|directory| directory.path() != own.path()) {
            if has_any(&other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes a record. Returns the former content.
    ///
    /// # Errors
    /// If it cannot be read or written; then it is unchanged.
    pub fn write(&mut self, key: &RecordKey, text: &str) -> Result<Option<String>, Error> {
        let earlier = self.read(key)?;
        if earlier.as_deref() == Some(text) {
            return Ok(earlier);
        }
        let drafts = self.directory()?.clone();
        let written = drafts.below(key.kind().as_str()).replace_file(&drafts, key.name(), text.as_bytes());
        if let Err(error) = written {
            tolerate_no_place(key, error)?;
        }
        Ok(earlier)
    }

    /// Removes a record. Returns the former content. A record in a directory that cannot be trusted stays, and counts
    /// as missing.
    pub fn remove(&mut self, key: &RecordKey) -> Result<Option<String>, Error> {
        let directory = self.directory()?.below(key.kind().as_str());
        let earlier = match directory.read_file(key.name()) {
            Err(error) if error.is_untrusted() => {
                log::warn!("the record {key} stays as it is: {error}: {}", error.details());
                return Ok(None);
            }
            read => read?.map(text),
        };
        if earlier.is_some() {
            let path = directory.path().join(key.name());
            cni_files::remove(&path).or_else(|error| tolerate_no_place(key, error))?;
        }
        // Even if there was no record: a killed process may have left a draft.
        self.is_untidy = true;
        Ok(earlier)
    }
}

/// Accepts that records cannot be written: containers work without them.
fn tolerate_no_place(key: &RecordKey, error: FileError) -> Result<(), FileError> {
    if !is_without_place(&error) {
        return Err(error);
    }
    log::warn!("the record {key} stays as it is: {error}: {}", error.details());
    Ok(())
}

/// The text of a record. Bytes that are not UTF-8 are replaced.
fn text(content: Vec<u8>) -> String {
    String::from_utf8_lossy(&content).into_owned()
}

impl Records for RunRecords {
    fn read(&mut self, key: &RecordKey) -> Result<Option<String>, Error> {
        let directory = self.directory()?.below(key.kind().as_str());
        if !self.is_verified {
            if !directory.verify()? {
                return Ok(None);
            }
            self.is_verified = true;
        }
        Ok(directory.read_verified(key.name())?.map(text))
    }

    fn written(&mut self, key: &RecordKey) -> Result<Option<Duration>, Error> {
        Ok(self.directory()?.below(key.kind().as_str()).written(key.name())?)
    }

    fn names(&mut self, kind: RecordKind) -> Result<Vec<String>, Error> {
        Ok(self.directory()?.below(kind.as_str()).names()?)
    }

    fn since_boot(&mut self) -> Result<Duration, Error> {
        since_boot().map_err(|source| fail!(Io, "failed to read the time since boot", details: "{source}"))
    }
}

/// The boot and the namespace that the calling thread is in, an identifier that is never reused: the kernel never gives a cookie
/// twice in a boot. `None` where it gives none, before Linux 5.14.
///
/// # Errors
/// When it could and does not. Who takes that for an old kernel would look for records in the wrong place.
pub fn identity() -> Result<Option<String>, Error> {
    identity_of(netns_cookie()?)
}

/// The identifier of the namespace with this cookie.
pub fn identity_of(cookie: Option<u64>) -> Result<Option<String>, Error> {
    Ok(cookie.map(|cookie| cni_files::boot_id().map(|boot| format!("{boot}:{cookie}"))).transpose()?)
}

/// The time since the machine was started, including suspend.
pub fn since_boot() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_BOOTTIME)?.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    const KIND: RecordKind = RecordKind::new("claims");

    /// The records of a namespace below a folder.
    fn records(root: &Path) -> RunRecords {
        let root = PrivateDirectory::new(root.join("records"));
        RunRecords { directory: Some(root.below("boot-1")), root, is_verified: false, is_untidy: false }
    }

    fn key(name: &str) -> RecordKey {
        RecordKey::new(KIND, name).expect("a key")
    }

    #[test]
    fn a_record_is_what_was_written_last() {
        let root = tempfile::tempdir().expect("directory");
        let mut records = records(root.path());
        assert_eq!((records.read(&key("a")).expect("read"), records.names(KIND).expect("listed")), (None, vec![]));
        assert_eq!(records.write(&key("a"), "first").expect("written"), None);
        assert_eq!(records.write(&key("a"), "second").expect("written").as_deref(), Some("first"));
        assert_eq!(records.write(&key("a"), "second").expect("as it is").as_deref(), Some("second"));
        records.write(&key("10.1.2.3"), "").expect("written");
        assert_eq!(records.names(KIND).expect("listed"), ["10.1.2.3", "a"]);
        let file = root.path().join("records/boot-1/claims/a");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "second");
        fs::write(&file, [b'x', 0xff]).expect("torn");
        assert_eq!(records.read(&key("a")).expect("read").as_deref(), Some("x\u{fffd}"));
        assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_removal_of_a_record_removes_what_killed_processes_left() {
        let root = tempfile::tempdir().expect("directory");
        let remove = |name: &str| records(root.path()).remove(&key(name)).expect("removed, or absent");
        for name in ["a", "b"] {
            records(root.path()).write(&key(name), "text").expect("written");
        }
        for (name, removed) in [("a", Some("text")), ("a", None), ("b", Some("text"))] {
            let draft = root.path().join("records/boot-1/draft-0000000000000000");
            fs::write(&draft, "half a rec").expect("written");
            assert_eq!((remove(name).as_deref(), draft.exists()), (removed, false), "{name}");
        }
        assert_eq!(records(root.path()).names(KIND).expect("listed"), Vec::<String>::new());
    }

    #[test]
    fn a_record_in_a_directory_that_cannot_be_trusted_stays_and_counts_as_missing() {
        for replaced in ["records", "records/boot-1"] {
            let root = tempfile::tempdir().expect("directory");
            let mut records = records(root.path());
            records.write(&key("a"), "text").expect("written");
            let elsewhere = root.path().join("elsewhere");
            fs::rename(root.path().join(replaced), &elsewhere).expect("moved");
            match replaced {
                "records" => symlink(&elsewhere, root.path().join(replaced)).expect("linked"),
                _ => fs::write(root.path().join(replaced), "no directory").expect("written"),
            }
            assert_eq!(records.remove(&key("a")).expect("no failure"), None, "{replaced}");
            let kept = if replaced == "records" { "boot-1/claims/a" } else { "claims/a" };
            assert_eq!(fs::read_to_string(elsewhere.join(kept)).expect("a file"), "text");
        }
    }

    #[test]
    fn records_are_elsewhere_when_only_other_namespaces_of_this_boot_have_some() {
        let root = tempfile::tempdir().expect("directory");
        let mut records = records(root.path());
        assert!(!records.are_elsewhere().expect("listed"), "there are none");
        let boot = cni_files::boot_id().expect("a boot");
        let mut make = |name: &str| {
            fs::create_dir_all(root.path().join("records").join(name)).expect("made");
            records.are_elsewhere().expect("listed")
        };
        assert!(!make("another-boot-7/attachments/x"), "those of another boot do not count");
        assert!(!make(&format!("{boot}-7/attachments")), "there are none any more");
        assert!(make(&format!("{boot}-7/attachments/x")));
        assert!(make("boot-1/attachments"), "there are none here");
        assert!(!make("boot-1/attachments/x"));
    }

    #[test]
    fn a_host_without_a_place_for_records_goes_on_without_them() {
        let failed = |kind: ErrorKind| FileError { verb: "create", path: "/run/x".into(), source: kind.into() };
        for kind in [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied] {
            tolerate_no_place(&key("a"), failed(kind)).expect("tolerated");
        }
        for kind in [ErrorKind::StorageFull, ErrorKind::NotFound, ErrorKind::Other] {
            assert_eq!(tolerate_no_place(&key("a"), failed(kind)).expect_err("told").source.kind(), kind);
        }
    }
}
