//! Replacing the file that node_exporter reads: it sees the old text or the new one, never half of it.

use std::fs;
use std::io;
use std::path::Path;

use cni_files::{Draft, FileError};

/// node_exporter is not root.
const MODE: u32 = 0o644;

/// Replaces a file, or creates it. Its folder must exist.
///
/// # Errors
/// [`FileError`] names the file. Then it is as it was.
pub fn replace(path: &Path, text: &str) -> Result<(), FileError> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(FileError::of("replace", path)(io::Error::other("it is not a regular file")));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Draft::create(folder, text.as_bytes(), MODE)?.replace(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_and_others_can_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cni.prom");
        for text in ["a long text\n", "short\n"] {
            replace(&path, text).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1, "no draft is left");
    }

    #[test]
    fn what_is_no_file_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        symlink("/dev/null", &link).expect("a link");
        for path in [&link, Path::new("/dev/null"), folder.path()] {
            let error = replace(path, "x").expect_err("refused");
            assert_eq!(error.to_string(), format!("failed to replace {}", path.display()));
            assert_eq!(error.source.to_string(), "it is not a regular file");
        }
        let error = replace(&folder.path().join("none/x"), "x").expect_err("no folder");
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
    }
}
