//! Programs that tests make: shell scripts, and copies.
//!
//! Another process writes the file. A program that another thread starts has all files of this process open until it is executed, and the
//! kernel executes no file that somebody has open for writing (`ETXTBSY`).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable script, and replaces the content of an existing file.
///
/// # Panics If it cannot be written.
#[track_caller]
pub fn install(path: &Path, lines: &str) {
    let write = r#"cat >"$0" && chmod 755 "$0""#;
    let mut command = Command::new("/bin/sh");
    let mut child = command.arg("-c").arg(write).arg(path).stdin(Stdio::piped()).spawn().expect("start sh");
    let mut input = child.stdin.take().expect("its input is piped");
    input.write_all(format!("#!/bin/sh\n{lines}").as_bytes()).expect("write to sh");
    drop(input);
    assert!(child.wait().expect("sh ends").success(), "install {}", path.display());
}

/// Copies a program.
///
/// # Panics If it cannot be copied.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let status = Command::new("/bin/cp").args([from, to]).status().expect("start cp");
    assert!(status.success(), "copy {} to {}", from.display(), to.display());
}
