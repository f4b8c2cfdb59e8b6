//! Finds the binaries under test.
//!
//! `CNI_BIN_DIR` names the folder with the plugins under test, `CNI_REFERENCE_DIR` one with reference plugins for
//! differential tests. Both must be outside of the folders that a [`crate::Sandbox`] hides.

use std::env;
use std::path::{Path, PathBuf};

/// The folders that a sandbox covers with an empty file system.
pub const HIDDEN: [&str; 2] = ["/run", "/var/lib"];

/// Returns the folder with the plugins under test.
///
/// # Panics
/// When `CNI_BIN_DIR` is unset, no folder, or hidden by a sandbox.
pub fn under_test() -> PathBuf {
    let Some(dir) = env::var_os("CNI_BIN_DIR") else {
        panic!("CNI_BIN_DIR is not set: run scripts/test.sh or set CNI_BIN_DIR to the plugins' folder");
    };
    checked("CNI_BIN_DIR", PathBuf::from(dir))
}

/// Returns the folder with reference plugins, if there is one.
///
/// # Panics If `CNI_REFERENCE_DIR` is set but unusable.
pub fn reference() -> Option<PathBuf> {
    let dir = env::var_os("CNI_REFERENCE_DIR")?;
    Some(checked("CNI_REFERENCE_DIR", PathBuf::from(dir)))
}

fn checked(variable: &str, dir: PathBuf) -> PathBuf {
    let dir = dir.canonicalize().unwrap_or_else(|error| panic!("{variable}={}: {error}", dir.display()));
    for hidden in HIDDEN {
        assert!(
            !dir.starts_with(Path::new(hidden)),
            "{variable}={} lies under {hidden}, which a sandbox hides",
            dir.display()
        );
    }
    assert!(dir.is_dir(), "{variable}={} is no folder", dir.display());
    dir
}
