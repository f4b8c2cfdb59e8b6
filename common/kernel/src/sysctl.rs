//! Kernel parameters below `/proc/sys`. Those of `net` belong to the network namespace of the calling thread.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use cni_model::plan::Sysctl;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

/// Most values are shorter, and are read by one system call.
const SHORT: usize = 256;

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
    let (mut file, mut text) = (open(key, OFlag::O_RDONLY)?, vec![0; SHORT]);
    let length = file.read(&mut text)?;
    text.truncate(length);
    if length == SHORT {
        file.read_to_end(&mut text)?;
    }
    String::from_utf8(text).map_err(io::Error::other)
}

/// By openat(2), since musl's open() makes one more system call.
fn open(key: &Sysctl, flags: OFlag) -> io::Result<File> {
    Ok(File::from(openat(AT_FDCWD, path(key).as_str(), flags | OFlag::O_CLOEXEC, Mode::empty())?))
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
    open(key, OFlag::O_WRONLY)?.write_all(if value.is_empty() { b"\n".as_slice() } else { value.as_bytes() })
}

/// The file of a parameter.
pub fn path(key: &Sysctl) -> String {
    format!("/proc/sys/{}", key.path())
}
