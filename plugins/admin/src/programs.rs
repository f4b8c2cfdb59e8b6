//! Programs of the administrator that the tool asks, such as `nft`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cni_files::find_program;

use crate::doctor::permissions::is_writable_by_others;

/// Where programs of administrators are, beside `PATH`.
const USUAL: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds a program in `PATH` and in the usual folders. One that others than root could change is not run.
pub fn trusted(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let program = find_program(name, OsStr::new(&format!("{path}:{USUAL}")))?;
    let real = program.canonicalize().ok()?;
    if is_open(&real) || real.parent().is_some_and(is_open) {
        log::warn!("{} is not run: others than root could change it", program.display());
        return None;
    }
    Some(program)
}

/// Whether others than root can change a file or a folder.
fn is_open(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| is_writable_by_others(metadata.uid(), metadata.mode()))
}
