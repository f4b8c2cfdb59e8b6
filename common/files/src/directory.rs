//! Directories that only their owner can read.
//!
//! A process that can open a file can hold its lock, and a process that can create files can place symbolic links
//! where root is about to write. So the plugins keep their records in directories of mode 0700.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use nix::unistd::geteuid;

use crate::draft::{self, Draft, random};
use crate::file::{FileError, open_or_create, read_if_present};

/// The largest file that is read: the numbers of some hundred thousand rules.
const MOST: u64 = 64 * 1024 * 1024;

/// The directory of records that must not outlive a boot.
pub const RUN_DIRECTORY: &str = "/run/cni/.cni-plugins-rs";

pub(crate) const DIRECTORY_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;

/// Others than the owner can write.
const OTHERS_WRITE: u32 = 0o022;

/// The mode of the directories above, which others use too.
pub(crate) const OUTER_MODE: u32 = 0o755;

/// How often work is repeated if another process removes its directory meanwhile.
const REPEATS: u64 = 100;

/// The longest pause before work is repeated, in microseconds.
const LONGEST_PAUSE: u64 = 5000;

/// A directory that only its owner may read. It is made when something is written into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateDirectory {
    /// The outermost directory that is private.
    root: PathBuf,
    path: PathBuf,
}

impl PrivateDirectory {
    /// A private directory in one that may be public.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { root: path.clone(), path }
    }

    /// A directory inside this one.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        Self { root: self.root.clone(), path: self.path.join(name) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory if it is missing, and removes permissions that an earlier release gave to others: of the outermost, by
    /// which alone others could come to those inside.
    ///
    /// # Errors
    /// [`FileError`] names the directory, also if it belongs to another user or is a link.
    pub fn ensure(&self) -> Result<(), FileError> {
        self.ensure_root()?;
        self.private().into_iter().skip(1).try_for_each(|path| self.create(path))
    }

    fn ensure_root(&self) -> Result<(), FileError> {
        let path = &*self.root;
        let metadata = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.create(path)?;
                fs::symlink_metadata(path)
            }
            known => known,
        };
        let metadata = metadata.map_err(FileError::of("stat", path))?;
        verify_owner(&metadata).map_err(FileError::of("use", path))?;
        if metadata.mode() & 0o7777 == DIRECTORY_MODE {
            return Ok(());
        }
        set_mode(path)
    }

    /// Creates one of the private directories, and those above the outermost. Another process may be faster.
    fn create(&self, path: &Path) -> Result<(), FileError> {
        if let (true, Some(outer)) = (path == self.root, path.parent()) {
            let made = DirBuilder::new().recursive(true).mode(OUTER_MODE).create(outer);
            made.map_err(FileError::of("create", outer))?;
        }
        match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
            Ok(()) => set_mode(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(FileError::of("create", path)(error)),
        }
    }

    /// Does work in the directory, which is made if it is missing.
    pub fn with<T>(&self, work: impl Fn() -> Result<T, FileError>) -> Result<T, FileError> {
        in_directory(|| self.ensure(), || self.ensure_root().and_then(|()| work()))
    }

    /// Opens a file of the directory for reading and writing, and creates it, for its owner only, if it is missing.
    pub fn open_file(&self, name: &str) -> Result<File, FileError> {
        let path = self.path.join(name);
        let file = self.with(|| open_or_create(&path, FILE_MODE))?;
        draft::set_mode(&file, FILE_MODE).map_err(FileError::of("change the mode of", &path))?;
        Ok(file)
    }

    /// Writes a file, for its owner only, into the directory, and replaces one with this name: completely or not at
    /// all.
    ///
    /// # Errors
    /// [`FileError`] names the file. Then the file is as it was.
    pub fn replace_file(&self, name: &str, content: &[u8]) -> Result<(), FileError> {
        self.with(|| Draft::create(&self.path, content, FILE_MODE)?.replace(&self.path.join(name)))
    }

    /// Reads a file of the directory; `None` if it is missing. A file that no plugin can have written, such as a pipe,
    /// counts as missing.
    ///
    /// # Errors
    /// [`FileError`], also if the directory belongs to another user, who could have written anything.
    pub fn read_file(&self, name: &str) -> Result<Option<Vec<u8>>, FileError> {
        if self.verify()? { self.read_verified(name) } else { Ok(None) }
    }

    /// Reads a file as [`PrivateDirectory::read_file`] does, for a caller that has verified the directory.
    pub fn read_verified(&self, name: &str) -> Result<Option<Vec<u8>>, FileError> {
        match read_if_present(MOST, &self.path.join(name)) {
            Err(error) if matches!(error.source.kind(), ErrorKind::InvalidInput | ErrorKind::FileTooLarge) => {
                log::warn!("{error}, which counts as empty: {}", error.source);
                Ok(Some(Vec::new()))
            }
            read => read,
        }
    }

    /// The names of what is in the directory, in order; those that are no text are left out.
    pub fn names(&self) -> Result<Vec<String>, FileError> {
        if self.verify()? { private_names(&self.path) } else { Ok(Vec::new()) }
    }

    /// When a file was last written, as time since 1970; `None` if it is missing.
    ///
    /// # Errors
    /// As [`PrivateDirectory::read_file`], and if the file system does not tell.
    pub fn written(&self, name: &str) -> Result<Option<Duration>, FileError> {
        if !self.verify()? {
            return Ok(None);
        }
        let path = self.path.join(name);
        match fs::symlink_metadata(&path).and_then(|metadata| metadata.modified()) {
            Ok(written) => Ok(Some(written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FileError::of("stat", &path)(source)),
        }
    }

    /// Whether the outermost directory exists. Nobody else can have put anything into it.
    ///
    /// # Errors
    /// [`FileError`] if it belongs to another user, others can write into it, or it is a link.
    pub fn verify(&self) -> Result<bool, FileError> {
        match fs::symlink_metadata(&self.root) {
            Ok(metadata) if metadata.is_dir() && metadata.mode() & OTHERS_WRITE != 0 => {
                Err(FileError::of("use", &self.root)(io::Error::other("others can write into it; remove it")))
            }
            Ok(metadata) => verify_owner(&metadata).map(|()| true).map_err(FileError::of("use", &self.root)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(source) => Err(FileError::of("stat", &self.root)(source)),
        }
    }

    /// The directories that are private, the outermost first.
    fn private(&self) -> Vec<&Path> {
        let mut private: Vec<&Path> =
            self.path.ancestors().take_while(|ancestor| ancestor.starts_with(&self.root)).collect();
        private.reverse();
        private
    }
}

/// The names of the entries of a directory, in order; empty if the directory is missing. Names that are not UTF-8 are
/// left out.
pub fn private_names(directory: &Path) -> Result<Vec<String>, FileError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let entries = entries.map_err(FileError::of("list", directory))?;
    let mut names: Vec<String> = entries.iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Does work in a directory, and makes the directory where the work finds none. Others may remove it as long as it is empty. If that
/// happens during the work, both are repeated, after a random pause that grows: without it, processes that make and remove the
/// directory in step have kept one from its work a hundred times.
pub fn in_directory<T>(
    make: impl Fn() -> Result<(), FileError>,
    work: impl Fn() -> Result<T, FileError>,
) -> Result<T, FileError> {
    let gone = |error: &FileError| matches!(error.source.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists);
    let mut done = work();
    for repeat in 0..=REPEATS {
        if !done.as_ref().is_err_and(gone) {
            break;
        }
        if repeat > 0 {
            thread::sleep(Duration::from_micros(random() % (repeat * 100).min(LONGEST_PAUSE)));
        }
        done = make().and_then(|()| work());
    }
    done
}

/// Sets the mode of a private directory, whatever the umask is.
fn set_mode(path: &Path) -> Result<(), FileError> {
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE)).map_err(FileError::of("change the mode of", path))
}

/// A directory of root may be used by everyone who can; another user's only by that user.
fn verify_owner(metadata: &Metadata) -> io::Result<()> {
    let owner = metadata.uid();
    if !metadata.is_dir() {
        return Err(io::Error::other("it is no directory"));
    }
    if owner == 0 || owner == geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::other(format!("it belongs to user {owner}, who could change its content; remove it")))
}

#[cfg(test)]
mod tests {

    use super::*;
    use nix::libc::ELOOP;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::os::unix::fs::{chown, symlink};

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("there").mode() & 0o7777
    }

    #[test]
    fn a_file_that_no_plugin_can_have_written_says_nothing() {
        let root = tempfile::tempdir().expect("directory");
        let directory = PrivateDirectory::new(root.path().join("private"));
        directory.replace_file("sparse", b"text").expect("written");
        mkfifo(&directory.path().join("pipe"), Mode::S_IRWXU).expect("a pipe");
        let sparse = File::options().write(true).open(directory.path().join("sparse")).expect("opened");
        sparse.set_len(20 << 30).expect("a sparse file");
        for name in ["pipe", "sparse"] {
            assert_eq!(directory.read_file(name).expect("no failure"), Some(Vec::new()), "{name}");
        }
    }

    /// Also what an earlier release left open.
    #[test]
    fn what_is_written_is_for_its_owner_alone_and_is_listed_and_read_with_its_time() {
        let root = tempfile::tempdir().expect("directory");
        let outer = PrivateDirectory::new(root.path().join("run/private"));
        let inner = outer.below("inner");
        assert_eq!((inner.names().expect("none"), inner.read_file("b").expect("none")), (vec![], None));
        assert!(!outer.path().exists(), "reading makes nothing");
        inner.open_file("lock").expect("opened");
        inner.replace_file("record", b"text").expect("written");
        for (path, mode) in [(outer.path(), 0o777), (&inner.path().join("lock"), 0o644)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("mode");
        }
        inner.open_file("lock").expect("opened");
        assert_eq!([outer.path(), inner.path()].map(mode), [0o700; 2]);
        assert_eq!(["lock", "record"].map(|name| mode(&inner.path().join(name))), [0o600; 2]);
        assert_eq!(fs::read_dir(outer.path()).expect("list").count(), 1, "no draft stays");
        assert_eq!(inner.names().expect("listed"), ["lock", "record"]);
        assert_eq!(inner.read_file("record").expect("read").as_deref(), Some(&b"text"[..]));
        let is_told = |name| inner.written(name).expect("told").is_some();
        assert_eq!(["record", "missing"].map(is_told), [true, false]);
    }

    #[test]
    fn a_link_is_refused_as_directory_and_as_file() {
        let root = tempfile::tempdir().expect("directory");
        let real = PrivateDirectory::new(root.path().join("real"));
        real.ensure().expect("made");
        symlink(real.path(), root.path().join("link")).expect("linked");
        let error = PrivateDirectory::new(root.path().join("link")).ensure().expect_err("refused");
        assert_eq!(error.source.to_string(), "it is no directory");
        symlink(root.path().join("victim"), real.path().join("lock")).expect("linked");
        let error = real.open_file("lock").expect_err("refused");
        assert_eq!(error.source.raw_os_error(), Some(ELOOP));
        assert!(!root.path().join("victim").exists());
    }

    /// What only root can set up.
    mod as_root {
        use super::*;

        #[test]
        fn a_directory_of_another_user_is_refused() {
            let root = tempfile::tempdir().expect("directory");
            let directory = PrivateDirectory::new(root.path().join("private"));
            directory.ensure().expect("made");
            chown(directory.path(), Some(65534), None).expect("root may");
            let refused: [FileError; 3] = [
                directory.open_file("lock").expect_err("refused"),
                directory.read_file("record").expect_err("refused"),
                directory.below("inner").names().expect_err("refused"),
            ];
            for error in refused {
                assert_eq!(error.to_string(), format!("failed to use {}", directory.path().display()));
                let why = "it belongs to user 65534, who could change its content; remove it";
                assert_eq!(error.source.to_string(), why);
            }
        }
    }
}
