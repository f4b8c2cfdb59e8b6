//! The identity of this boot and of this machine.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

use crate::error::FileError;
use crate::file::open;
use nix::fcntl::OFlag;

/// Differs between boots: `boot_id` of random(4). It is read once.
pub fn boot_id() -> Result<String, FileError> {
    static ID: OnceLock<String> = OnceLock::new();
    if let Some(id) = ID.get() {
        return Ok(id.clone());
    }
    let id = read_id(Path::new("/proc/sys/kernel/random/boot_id"))?;
    Ok(ID.get_or_init(|| id).clone())
}

/// Differs between machines: machine-id(5).
pub fn machine_id() -> Result<String, FileError> {
    read_id(Path::new("/etc/machine-id"))
}

/// Reads a file that holds one word of hexadecimal digits: both ids have at least 32.
fn read_id(path: &Path) -> Result<String, FileError> {
    let mut text = [0; 64];
    let read = open(path, OFlag::O_RDONLY, 0).and_then(|mut file| file.read(&mut text));
    let text = String::from_utf8_lossy(&text[..read.map_err(FileError::of("read", path))?]);
    let word = text.trim();
    if word.len() >= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Ok(word.to_owned());
    }
    Err(FileError::of("read", path)(io::Error::other(format!("{word:?} is not an id"))))
}
