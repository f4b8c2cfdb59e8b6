//! Reading, overwriting and removing one file.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

use crate::error::FileError;

/// Reads a file.
///
/// # Errors
/// [`FileError`], also when there is none.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(FileError::of("open", path))
}

/// Opens a file for reading. A symbolic link is not followed, and a named pipe does not keep its reader waiting.
///
/// # Errors
/// [`FileError`], also when there is none.
pub fn open_to_read(path: &Path) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path).map_err(FileError::of("open", path))
}

/// Reads a file that is opened by [`open_to_read`]; `None` when there is none.
///
/// # Errors
/// [`FileError`]
pub fn read_if_present(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let mut file = match open_to_read(path) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(FileError::of("read", path))?;
    Ok(Some(content))
}

/// Removes a file, and accepts that there is none.
///
/// # Errors
/// [`FileError`]
pub fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(FileError::of("remove", path)(source)),
    }
}

/// Overwrites a file in place, and creates it with this mode if there is none. A crash may leave parts of the old and
/// of the new content, so a reader must be able to see whether the content is complete; in return the file system
/// has nothing to flush. A symbolic link is not followed, since it could lead to any file, and no pipe is waited for.
///
/// # Errors
/// [`FileError`]
pub fn overwrite(path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(mode).custom_flags(O_NOFOLLOW | O_NONBLOCK);
    let mut file = options.open(path).map_err(FileError::of("open", path))?;
    let written = file.write_all(content).and_then(|()| file.set_len(content.len() as u64));
    written.map_err(FileError::of("write", path))
}

/// Opens a file for reading and writing, and creates it with this mode if it is missing. A symbolic link is not followed,
/// as in [`overwrite`].
///
/// # Errors
/// [`FileError`] names the file.
pub fn open_or_create(path: &Path, mode: u32) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(mode).custom_flags(O_NOFOLLOW);
    options.open(path).map_err(FileError::of("open", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc::{ELOOP, ENXIO};
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_is_not_there_is_read_as_nothing_and_removed() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("x");
        assert_eq!(read_if_present(&path).expect("no failure"), None);
        remove(&path).expect("no failure");
        let error = read(&path).expect_err("absent");
        assert_eq!(error.to_string(), format!("failed to open {}", path.display()));
        let error = read_if_present(directory.path()).expect_err("a directory");
        assert_eq!(error.source.kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn a_shorter_content_leaves_nothing_of_the_longer_one() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("x");
        for content in ["long content", "short"] {
            overwrite(&path, content.as_bytes(), 0o600).expect("written");
            assert_eq!(read(&path).expect("read"), content.as_bytes());
        }
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_symbolic_link_is_not_written_through() {
        let directory = tempfile::tempdir().expect("directory");
        let [victim, link] = ["victim", "link"].map(|name| directory.path().join(name));
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, &link).expect("linked");
        let error = overwrite(&link, b"x", 0o600).expect_err("refused");
        assert_eq!(error.source.raw_os_error(), Some(ELOOP));
        assert_eq!(read(&victim).expect("read"), b"precious");
        assert_eq!(read_if_present(&link).expect_err("refused").source.raw_os_error(), Some(ELOOP));
    }

    #[test]
    fn a_named_pipe_keeps_nobody_waiting() {
        let directory = tempfile::tempdir().expect("directory");
        let pipe = directory.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
        assert_eq!(read_if_present(&pipe).expect("nobody writes"), Some(Vec::new()));
        assert_eq!(overwrite(&pipe, b"x", 0o600).expect_err("nobody reads").source.raw_os_error(), Some(ENXIO));
    }
}
