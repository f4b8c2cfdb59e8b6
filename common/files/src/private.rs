//! A file that only its owner can read, in a directory that the configuration names.
//!
//! The directory may exist already, with any owner and mode, and is not changed. So a file in it is read only if it
//! belongs to root, and links are not followed.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, remove_dir};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::libc::ELOOP;
use nix::unistd::geteuid;

use crate::directory::{DIRECTORY_MODE, FILE_MODE, OUTER_MODE, in_directory};
use crate::draft::Draft;
use crate::file::{FileError, open_to_read, remove};

const DRAFT_SUFFIX: &[u8] = b".draft";
/// `NAME_MAX` of `linux/limits.h`.
const LONGEST_NAME: usize = 255;

/// Reads a file of root, or of the user that this process runs as; `None` if it is missing.
///
/// # Errors
/// [`FileError`], also if it is a link, not a regular file, or another user's.
pub fn read_private(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let mut file = match open_to_read(path) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    verify(&file).map_err(FileError::of("use", path))?;
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(FileError::of("read", path))?;
    Ok(Some(content))
}

/// Whether [`read_private`] failed because the file is a link, not a regular file, or another user's.
pub fn is_foreign(error: &FileError) -> bool {
    error.source.raw_os_error().is_none_or(|number| number == ELOOP)
}

fn verify(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if owner == 0 || owner == geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::other(format!("it belongs to user {owner}, who could have written anything; remove it")))
}

/// Writes a file that only its owner can read: completely or not at all. A link of this name is replaced and not
/// followed. Returns the directories that were made for it, the innermost first.
///
/// # Errors
/// [`FileError`]. Then the file is unchanged, and no directory that was made for it is left.
pub fn replace_private(path: &Path, content: &[u8]) -> Result<Vec<PathBuf>, FileError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let made = RefCell::new(Vec::new());
    let make = || make_directory(directory, DIRECTORY_MODE, &mut made.borrow_mut());
    let written = in_directory(make, || Draft::create_at(&draft_of(path), content, FILE_MODE)?.replace(path));
    let made = made.into_inner();
    match written {
        Ok(()) => Ok(made),
        Err(error) => {
            if let Err(failed) = remove_empty(&made) {
                log::warn!("{failed}: {}", failed.source);
            }
            Err(error)
        }
    }
}

/// Removes empty directories, the innermost first. A directory that is missing or in use is success.
pub fn remove_empty(directories: &[PathBuf]) -> Result<(), FileError> {
    for directory in directories {
        match remove_dir(directory) {
            Ok(()) => {}
            Err(error) if [ErrorKind::NotFound, ErrorKind::DirectoryNotEmpty].contains(&error.kind()) => {}
            Err(source) => return Err(FileError::of("remove", directory)(source)),
        }
    }
    Ok(())
}

/// Removes a file, and what a killed process has left of writing it. A missing file is success.
pub fn remove_private(path: &Path) -> Result<(), FileError> {
    remove(&draft_of(path))?;
    remove(path)
}

/// The name of the draft. No other process writes a file of this name at the same time, since runtimes call the plugins
/// of a container one after the other. So a long name may be cut, including the interface.
fn draft_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let name = &name[..name.len().min(LONGEST_NAME - DRAFT_SUFFIX.len())];
    path.with_file_name(OsStr::from_bytes(&[name, DRAFT_SUFFIX].concat()))
}

fn make_directory(path: &Path, mode: u32, made: &mut Vec<PathBuf>) -> Result<(), FileError> {
    let mut result = DirBuilder::new().mode(mode).create(path);
    if let (Err(error), Some(outer)) = (&result, path.parent())
        && error.kind() == ErrorKind::NotFound
    {
        make_directory(outer, OUTER_MODE, made)?;
        result = DirBuilder::new().mode(mode).create(path);
    }
    match result {
        Ok(()) => made.insert(0, path.to_owned()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(source) => return Err(FileError::of("create", path)(source)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::private_names;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("there").permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_and_its_directory_are_made_for_their_owner_alone() {
        let root = tempfile::tempdir().expect("directory");
        let inner = root.path().join("a/b");
        let file = inner.join("x.json");
        assert_eq!(read_private(&file).expect("nothing there"), None);
        assert_eq!(replace_private(&file, b"text").expect("written"), [inner.clone(), root.path().join("a")]);
        assert_eq!([&file, &inner, &root.path().join("a")].map(|path| mode(path)), [0o600, 0o700, 0o755]);
        assert_eq!(read_private(&file).expect("read").as_deref(), Some(&b"text"[..]));
        assert_eq!(replace_private(&file, b"new").expect("written"), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(&inner).expect("listed").count(), 1, "no draft stays");
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o1777)).expect("mode");
        replace_private(&inner.join("x".repeat(255)), b"text").expect("the longest name");
        assert_eq!(mode(&inner), 0o1777, "a directory that is there stays as it is");
        let error = replace_private(&file.join("y"), b"text").expect_err("in a file");
        assert_eq!(error.to_string(), format!("failed to create {}", file.join("y.draft").display()));
        replace_private(&root.path().join("c/d").join("x".repeat(300)), b"text").expect_err("too long a name");
        assert_eq!(fs::read_dir(root.path()).expect("listed").count(), 1, "it leaves no directory");
    }

    #[test]
    fn those_who_come_and_go_at_once_do_not_keep_each_other_from_it() {
        let root = tempfile::tempdir().expect("directory");
        let outer = root.path().join("outer");
        std::thread::scope(|scope| {
            for number in 1..=4 {
                let inner = outer.join("inner");
                let (file, directories) = (inner.join(format!("file-{number}")), [inner, outer.clone()]);
                scope.spawn(move || {
                    for _ in 0..300 {
                        replace_private(&file, b"text").expect("written");
                        remove_private(&file).expect("removed");
                        remove_empty(&directories).expect("removed, or in use");
                    }
                });
            }
        });
        assert!(!outer.exists(), "nothing stays behind");
    }

    #[test]
    fn the_files_of_a_directory_are_listed_in_order() {
        let root = tempfile::tempdir().expect("directory");
        assert_eq!(private_names(&root.path().join("none")).expect("listed"), Vec::<String>::new());
        for name in ["b", "a@x"] {
            replace_private(&root.path().join(name), b"text").expect("written");
        }
        assert_eq!(private_names(root.path()).expect("listed"), ["a@x", "b"]);
        let error = private_names(&root.path().join("b")).expect_err("no directory");
        assert_eq!(error.to_string(), format!("failed to list {}", root.path().join("b").display()));
    }

    #[test]
    fn what_a_killed_process_left_goes_with_the_file() {
        let root = tempfile::tempdir().expect("directory");
        let file = root.path().join("x");
        fs::write(root.path().join("x.draft"), "half").expect("written");
        replace_private(&file, b"text").expect("written over");
        fs::write(root.path().join("x.draft"), "half").expect("written");
        for _ in 0..2 {
            remove_private(&file).expect("removed");
            assert_eq!(fs::read_dir(root.path()).expect("listed").count(), 0);
        }
    }

    /// What only root can set up.
    mod as_root {
        use super::*;

        #[test]
        fn what_is_not_roots_own_is_neither_read_nor_written_through() {
            let root = tempfile::tempdir().expect("directory");
            let [victim, link, foreign] = ["victim", "link", "foreign"].map(|name| root.path().join(name));
            fs::write(&victim, "precious").expect("written");
            symlink(&victim, &link).expect("linked");
            let error = read_private(&link).expect_err("refused");
            assert!(is_foreign(&error) && error.source.raw_os_error() == Some(ELOOP));
            replace_private(&link, b"ours").expect("replaced");
            assert_eq!(fs::read(&victim).expect("read"), b"precious");
            fs::write(&foreign, "{}").expect("written");
            chown(&foreign, Some(65534), None).expect("root may");
            let error = read_private(&foreign).expect_err("refused");
            assert!(is_foreign(&error));
            assert_eq!(
                error.source.to_string(),
                "it belongs to user 65534, who could have written anything; remove it"
            );
            let error = read_private(root.path()).expect_err("refused");
            assert_eq!(error.source.to_string(), "it is no file");
            assert!(is_foreign(&error));
            let error = read_private(&victim.join("below")).expect_err("no directory");
            assert!(!is_foreign(&error), "it may be ours: {error:?}");
        }
    }
}
