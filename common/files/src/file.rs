//! Reading, overwriting, removing and finding one file.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::iter::successors;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use cni_core::error::{Code, Failure};
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::libc::EISDIR;
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, access};

/// An operation on a file that failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {verb} {}", path.display())]
pub struct FileError {
    pub verb: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

impl FileError {
    /// Returns a function that adds the operation and the file to the system's error.
    pub fn of(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { verb, path: path.to_owned(), source }
    }

    /// Whether the file exists, but cannot be trusted: it is not a regular file, belongs to another user, or is below what is no
    /// directory.
    pub fn is_untrusted(&self) -> bool {
        matches!(self.source.kind(), ErrorKind::Other | ErrorKind::NotADirectory)
    }
}

impl Failure for FileError {
    fn code(&self) -> Code {
        Code::Io
    }
}

/// Reads a file of at most so many bytes, or `/dev/null`: as many as it has when it is opened. A symbolic link is followed.
///
/// # Errors
/// [`FileError`], also when the file is missing, larger, or of a kind that may never end or keep its reader waiting.
pub fn read_at_most(limit: u64, path: &Path) -> Result<Vec<u8>, FileError> {
    let file = open(path, OFlag::O_RDONLY | OFlag::O_NONBLOCK, 0).map_err(FileError::of("open", path))?;
    read_opened(file, limit).map_err(FileError::of("read", path))
}

fn read_opened(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(io::Error::from_raw_os_error(EISDIR));
    }
    if !kind.is_file() && !is_null(&file, kind)? {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if metadata.len() > limit {
        return Err(too_large(limit));
    }
    // Most files are read at once. A size of 0 may be one that the kernel does not know, as in proc(5).
    let most = if metadata.len() == 0 { limit.saturating_add(1) } else { metadata.len() };
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(most).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(content)
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"))
}

/// Tells `/dev/null`, which some give for a file that says nothing, from other devices.
fn is_null(file: &File, kind: fs::FileType) -> io::Result<bool> {
    let device = file.metadata()?.rdev();
    Ok(kind.is_char_device() && device == fs::metadata("/dev/null")?.rdev())
}

/// Opens a file with these flags and `O_CLOEXEC`; one that it creates gets this mode, less the umask. It uses openat(2), since musl's
/// open() makes one more system call.
pub fn open(path: &Path, flags: OFlag, mode: u32) -> io::Result<File> {
    Ok(File::from(openat(AT_FDCWD, path, flags | OFlag::O_CLOEXEC, Mode::from_bits_truncate(mode))?))
}

/// Opens a file for reading. A symbolic link is not followed, and a named pipe does not block.
pub fn open_to_read(path: &Path) -> Result<File, FileError> {
    open(path, OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK, 0).map_err(FileError::of("open", path))
}

/// Reads a file of at most `limit` bytes with [`open_to_read`]; `None` if it is missing.
///
/// # Errors
/// [`FileError`], also if the file is larger, or not a regular one.
pub fn read_if_present(limit: u64, path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let file = match open_to_read(path) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    read_opened(file, limit).map(Some).map_err(FileError::of("read", path))
}

/// Removes a file. A missing file is success.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(FileError::of("remove", path)(source)),
    }
}

/// Overwrites a file in place, and creates it with this mode if it is missing. A crash may leave parts of the old and
/// of the new content, so a reader must be able to tell whether the content is complete; in return, nothing is flushed
/// to the disk. A symbolic link is not followed, and a named pipe does not block.
pub fn overwrite(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut file = open(path, flags, mode).map_err(FileError::of("open", path))?;
    let written = file.write_all(content).and_then(|()| file.set_len(content.len() as u64));
    written.map_err(FileError::of("write", path))
}

/// Opens a file for reading and writing, and creates it with this mode if it is missing. A symbolic link is not followed,
/// as in [`overwrite`].
pub fn open_or_create(path: &Path, mode: u32) -> Result<File, FileError> {
    open(path, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW, mode).map_err(FileError::of("open", path))
}

/// The regular files with a name in the directories of `path`, in order. Empty entries are ignored.
pub fn find_files(name: &OsStr, path: &OsStr) -> impl Iterator<Item = PathBuf> {
    let directories = path.as_bytes().split(|byte| *byte == b':').map(|bytes| Path::new(OsStr::from_bytes(bytes)));
    let named =
        directories.filter(|directory| !directory.as_os_str().is_empty()).map(move |directory| directory.join(name));
    named.filter(|file| file.is_file())
}

/// The first program with a name in the directories of `path`. Relative directories are ignored, since their meaning
/// depends on where the process happens to be.
pub fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    find_files(OsStr::new(name), path).find(|file| file.is_absolute() && access(file, AccessFlags::X_OK).is_ok())
}

/// As many links as the kernel follows for one path: `MAXSYMLINKS` of `linux/namei.h`.
const MOST_LINKS: usize = 40;

/// A path, and where each link that it leads to leads in turn; the last one is the file.
pub fn links(path: PathBuf) -> impl Iterator<Item = PathBuf> + Clone {
    let target = |link: &PathBuf| Some(link.parent()?.join(fs::read_link(link).ok()?));
    successors(Some(path), target).take(MOST_LINKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc::{EISDIR, ELOOP, ENXIO};
    use nix::unistd::mkfifo;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const LIMIT: u64 = 64;

    #[test]
    fn only_a_small_file_is_read_and_written_through_no_link_and_nobody_waits() {
        let directory = tempfile::tempdir().expect("directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("victim"), [b'x'; LIMIT as usize]).expect("written");
        symlink(at("victim"), at("link")).expect("linked");
        mkfifo(&at("pipe"), Mode::S_IRWXU).expect("a pipe");
        File::create(at("sparse")).and_then(|file| file.set_len(20 << 30)).expect("a sparse file");
        fs::create_dir(at("folder")).expect("made");
        assert_eq!(read_at_most(LIMIT, &at("victim")).expect("read").len() as u64, LIMIT);
        let reported =
            |error: FileError| error.source.raw_os_error().map_or(error.source.to_string(), |n| n.to_string());
        let (no_file, large) = ("it is not a regular file".to_owned(), "it has more than 64 bytes".to_owned());
        let (is_link, is_folder) = (ELOOP.to_string(), EISDIR.to_string());
        for (name, at_most, if_present) in [
            ("pipe", Some(&no_file), &no_file),
            ("sparse", Some(&large), &large),
            ("folder", None, &is_folder),
            ("link", None, &is_link),
        ] {
            assert_eq!(&reported(read_if_present(LIMIT, &at(name)).expect_err(name)), if_present, "{name}");
            if let Some(at_most) = at_most {
                assert_eq!(&reported(read_at_most(LIMIT, &at(name)).expect_err(name)), at_most, "{name}");
            }
        }
        assert_eq!(reported(overwrite(&at("link"), b"x", 0o600).expect_err("refused")), is_link);
        assert_eq!(reported(overwrite(&at("pipe"), b"x", 0o600).expect_err("nobody reads")), ENXIO.to_string());
        assert_eq!(read_at_most(LIMIT, Path::new("/dev/null")).expect("read"), b"");
        assert_eq!(reported(read_at_most(LIMIT, Path::new("/dev/zero")).expect_err("it does not end")), no_file);
    }

    #[test]
    fn what_is_not_there_is_nothing_and_a_shorter_content_leaves_nothing_of_the_longer_one() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("x");
        assert_eq!(read_if_present(LIMIT, &path).expect("no failure"), None);
        remove(&path).expect("no failure");
        let error = read_at_most(LIMIT, &path).expect_err("absent");
        assert_eq!(error.to_string(), format!("failed to open {}", path.display()));
        for content in ["long content", "short"] {
            overwrite(&path, content.as_bytes(), 0o600).expect("written");
            assert_eq!(read_at_most(LIMIT, &path).expect("read"), content.as_bytes());
        }
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_program_is_found_in_absolute_directories_only() {
        assert_eq!(find_program("sh", OsStr::new("bin:/nowhere:/bin")), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find_program("sh", OsStr::new("bin:../bin:")), None);
        assert_eq!(find_program("passwd", OsStr::new("/etc")), None, "it may not be executed");
    }

    #[test]
    fn files_are_found_in_order_whether_they_may_be_executed_or_not() {
        let found: Vec<_> = find_files(OsStr::new("passwd"), OsStr::new("/nowhere::/usr/bin:/etc")).collect();
        assert_eq!(found, [PathBuf::from("/usr/bin/passwd"), PathBuf::from("/etc/passwd")]);
        assert_eq!(find_files(OsStr::new("bin"), OsStr::new("/")).count(), 0, "a directory is no file");
    }
}
