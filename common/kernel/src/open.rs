//! Opening files without a needless system call.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

/// Opens a file that exists by openat(2): musl's open() sets `FD_CLOEXEC` by one more system call.
pub fn open(path: &Path, flags: OFlag) -> io::Result<File> {
    Ok(File::from(openat(AT_FDCWD, path, flags | OFlag::O_CLOEXEC, Mode::empty())?))
}
