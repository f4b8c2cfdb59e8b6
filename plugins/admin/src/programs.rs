//! Programs of the administrator that the tool runs, such as `nft`, and plugins of others that it asks which they are.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_files::find_program;
use cni_linux::process::{self, ProcessError};

/// How long a plugin may take to say which it is.
const PATIENCE: Duration = Duration::from_secs(3);

/// Finds a program in `PATH` and in the folders where programs of administrators usually are.
pub fn find(name: &str) -> Option<PathBuf> {
    find_in(name, "/usr/sbin:/usr/bin:/sbin:/bin")
}

/// Finds a program in `PATH` and in other folders.
pub fn find_in(name: &str, folders: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    find_program(name, OsStr::new(&format!("{path}:{folders}")))
}

/// Finds a program. One that others than root could change is not run.
pub fn trusted(name: &str) -> Option<PathBuf> {
    let program = find(name)?;
    let real = program.canonicalize().ok()?;
    if is_open(&real) || real.parent().is_some_and(is_open) {
        log::warn!("{} is not run: others than root could change it", program.display());
        return None;
    }
    Some(program)
}

/// What a plugin says about itself, such as `CNI bridge plugin v1.9.1+rs.0.1.0`. Asks it as Nomad does: without a command a
/// plugin says which it is, and does nothing. A program that others than root could have put there is not run.
pub fn about(file: &Path) -> String {
    // A link is run by its own name, which may be that of the plugin alone.
    match file.canonicalize() {
        Ok(real) if ![Some(&*real), real.parent(), file.parent()].into_iter().flatten().any(is_open) => {}
        Ok(_) => return "not run: others than root could change it".to_owned(),
        Err(error) => return format!("it cannot be run: {error}"),
    }
    let environment = [("CNI_COMMAND", OsStr::new(""))];
    match process::run(file, &[], b"", &environment, PATIENCE) {
        Ok(output) => first_line(&String::from_utf8_lossy(&output.stderr)),
        Err(ProcessError::Start { source, .. }) => format!("it cannot be run: {source}"),
        Err(error) => error.to_string(),
    }
}

/// The line in which a plugin says which it is.
pub fn first_line(said: &str) -> String {
    said.lines().next().filter(|line| !line.is_empty()).unwrap_or("it does not say which plugin it is").to_owned()
}

/// Whether others than root can change a file or a folder.
pub fn is_open(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| is_writable_by_others(metadata.uid(), metadata.mode()))
}

/// Whether owner and mode let others than root change a file.
pub const fn is_writable_by_others(user: u32, mode: u32) -> bool {
    user != 0 || mode & 0o022 != 0
}
