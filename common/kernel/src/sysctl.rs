//! Kernel parameters below `/proc/sys`. Those of `net` belong to the network namespace of the calling thread.

use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cni_files::open;
use cni_model::plan::Sysctl;
use nix::errno::Errno;
use nix::fcntl::OFlag;

/// The room for a value at first, in bytes; most are shorter. The kernel cuts a longer list and returns no second part
/// (`proc_do_large_bitmap` of `kernel/sysctl.c`), so a value that fills the room is read again with more.
const ROOM: usize = 256;

/// Reads a parameter without the white space around it; `None` when the kernel does not have it, or it has no value yet
/// (`EIO` of `addrconf_sysctl_stable_secret` in `net/ipv6/addrconf.c`).
pub fn read(key: &Sysctl) -> io::Result<Option<String>> {
    match read_whole(key) {
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::EIO as i32) && key.path().ends_with("/stable_secret") => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn read_whole(key: &Sysctl) -> io::Result<String> {
    let (file, mut text) = (open(Path::new(&path(key)), OFlag::O_RDONLY, 0)?, vec![0; ROOM]);
    loop {
        let length = file.read_at(&mut text, 0)?;
        if length < text.len() {
            text.truncate(length);
            return String::from_utf8(text).map_err(io::Error::other);
        }
        text.resize(length * 4, 0);
    }
}

/// Writes a parameter, unless it has the value already. Returns the earlier value if it was different; one that
/// can only be written, such as `net/ipv4/route/flush`, has none.
///
/// # Errors
/// Those of reading and writing; a parameter that does not exist is not created.
pub fn ensure(key: &Sysctl, value: &str) -> io::Result<Option<String>> {
    let earlier = match read(key) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        earlier => earlier?,
    };
    if earlier.as_deref() == Some(value) {
        return Ok(None);
    }
    write(key, value)?;
    Ok(earlier)
}

/// Writes a parameter. An empty value is written as a line: to write nothing is no call.
///
/// # Errors
/// Those of writing; a parameter that does not exist is not created.
fn write(key: &Sysctl, value: &str) -> io::Result<()> {
    open(Path::new(&path(key)), OFlag::O_WRONLY, 0)?.write_all(if value.is_empty() {
        b"\n".as_slice()
    } else {
        value.as_bytes()
    })
}

/// The file of a parameter.
pub fn path(key: &Sysctl) -> String {
    format!("/proc/sys/{}", key.path())
}
