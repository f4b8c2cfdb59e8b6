//! A file that is written completely before it gets its name.

use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::file::{self, FileError, open_to_read, remove};

/// The beginning of a draft's random name.
const PREFIX: &str = "draft-";

/// A file that is written and has no lasting name yet. It is removed when it is dropped.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    /// Whether the draft still has the name `path`.
    named: bool,
    /// Open and locked as long as the process that makes the draft lives.
    file: File,
}

impl Draft {
    /// Writes a draft with a random name into a directory. The file gets this mode whatever the umask is.
    pub fn create(directory: &Path, content: &[u8], mode: u32) -> Result<Self, FileError> {
        let path = directory.join(format!("{PREFIX}{:016x}", random()));
        let draft = Self { file: open(&path, mode)?, path, named: true };
        draft.file.lock().map_err(FileError::of("lock", &draft.path))?;
        draft.write(content, mode)
    }

    /// Writes a draft with this name; the caller ensures that no other process uses it. A file that a killed process
    /// has left is removed and not overwritten, since it may have another name too.
    pub fn create_at(path: &Path, content: &[u8], mode: u32) -> Result<Self, FileError> {
        let opened = open(path, mode).or_else(|error| {
            if error.source.kind() != ErrorKind::AlreadyExists {
                return Err(error);
            }
            fs::remove_file(path).map_err(FileError::of("create", path))?;
            open(path, mode)
        });
        Self { file: opened?, path: path.to_owned(), named: true }.write(content, mode)
    }

    fn write(mut self, content: &[u8], mode: u32) -> Result<Self, FileError> {
        let written = set_mode(&self.file, mode).and_then(|()| self.file.write_all(content));
        written.map_err(FileError::of("write", &self.path)).map(|()| self)
    }

    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Replaces a file with the draft in one step.
    ///
    /// # Errors
    /// [`FileError`] names the file. Then the draft is removed.
    pub fn replace(mut self, path: &Path) -> Result<(), FileError> {
        fs::rename(&self.path, path).map_err(FileError::of("write", path))?;
        self.named = false;
        Ok(())
    }

    /// Gives the draft one more name, which must be free.
    pub fn link(&self, path: &Path) -> Result<(), FileError> {
        fs::hard_link(&self.path, path).map_err(FileError::of("link", path))
    }

    /// Removes the draft's own name.
    pub fn discard(mut self) -> Result<(), FileError> {
        self.named = false;
        remove(&self.path)
    }

    /// Removes drafts with random names that killed processes have left in a directory. A draft whose process lives is
    /// locked. Process ids would not identify the writer: a process in another PID namespace may share the directory.
    pub fn remove_dead(directory: &Path) -> Result<(), FileError> {
        let failed = || FileError::of("list", directory);
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(failed()(source)),
        };
        for entry in entries {
            let path = entry.map_err(failed())?.path();
            let is_draft = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
            if is_draft && open_to_read(&path).is_ok_and(|file| file.try_lock().is_ok()) {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.named
            && let Err(error) = remove(&self.path)
        {
            log::warn!("{error}: {}", error.source);
        }
    }
}

/// Creates a file. A link cannot redirect it: `O_EXCL` fails on anything that has the name.
fn open(path: &Path, mode: u32) -> Result<File, FileError> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
    file::open(path, flags, mode).map_err(FileError::of("create", path))
}

/// Sets the bits that the umask has cleared. On file systems without modes it does nothing.
pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    if file.metadata()?.mode() & 0o7777 == mode {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// A random number that nobody can guess: the standard library hashes with random bytes from the kernel, and another key each time.
pub fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("list").map(|entry| entry.expect("entry").file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn a_draft_takes_the_place_of_a_file_with_its_own_mode() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("x");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("mode");
        for mode in [0o600, 0o666] {
            Draft::create(directory.path(), b"new", mode).expect("draft").replace(&path).expect("replaced");
            assert_eq!(path.metadata().expect("there").mode() & 0o7777, mode);
            assert_eq!(fs::read(&path).expect("read"), b"new");
        }
        assert_eq!(names(directory.path()), ["x"]);
    }

    #[test]
    fn a_draft_that_becomes_nothing_leaves_nothing() {
        let directory = tempfile::tempdir().expect("directory");
        let folder = directory.path().join("folder");
        fs::create_dir(&folder).expect("mkdir");
        let draft = Draft::create(directory.path(), b"x", 0o600).expect("draft");
        let error = draft.replace(&folder).expect_err("a folder");
        assert_eq!(error.to_string(), format!("failed to write {}", folder.display()));
        drop(Draft::create(directory.path(), b"x", 0o600).expect("draft"));
        Draft::create(directory.path(), b"x", 0o600).expect("draft").discard().expect("removed");
        assert_eq!(names(directory.path()), ["folder"]);
    }

    #[test]
    fn what_lies_at_the_name_of_a_draft_is_removed_and_not_written_over() {
        let directory = tempfile::tempdir().expect("directory");
        let [lease, draft, victim] = ["lease", "lease.draft", "victim"].map(|name| directory.path().join(name));
        let first = Draft::create_at(&draft, b"first", 0o600).expect("draft");
        first.link(&lease).expect("linked");
        std::mem::forget(first);
        Draft::create_at(&draft, b"second", 0o600).expect("draft").discard().expect("removed");
        assert_eq!(fs::read(&lease).expect("read"), b"first");
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, &draft).expect("linked");
        Draft::create_at(&draft, b"third", 0o600).expect("draft").replace(&lease).expect("replaced");
        assert_eq!(
            (fs::read(&lease).expect("read"), fs::read(&victim).expect("read")),
            (b"third".into(), b"precious".into())
        );
    }

    #[test]
    fn drafts_of_the_dead_are_removed_and_those_of_the_living_stay() {
        let directory = tempfile::tempdir().expect("directory");
        for name in ["draft-0123456789abcdef", "other"] {
            fs::write(directory.path().join(name), "half a rec").expect("written");
        }
        let living = Draft::create(directory.path(), b"x", 0o600).expect("draft");
        Draft::remove_dead(directory.path()).expect("removed");
        let name = living.path.file_name().expect("a name").to_str().expect("text").to_owned();
        assert_eq!(names(directory.path()), [name, "other".to_owned()]);
        Draft::remove_dead(&directory.path().join("nowhere")).expect("nothing to remove");
    }
}
