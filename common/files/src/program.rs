//! Finds programs in a list of directories, such as `PATH` and `CNI_PATH`.

use std::ffi::OsStr;
use std::fs;
use std::iter::successors;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

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
