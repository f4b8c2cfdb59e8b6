//! Shell scripts that tests use as programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes an executable script, and replaces an existing file.
///
/// # Panics If it cannot be written.
#[track_caller]
pub fn install(path: &Path, lines: &str) {
    let done = fs::write(path, format!("#!/bin/sh\n{lines}"))
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)));
    done.unwrap_or_else(|error| panic!("install {}: {error}", path.display()));
}
