//! What belongs to one machine alone: its identity, that of its boot, and file systems that no other machine uses.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

use nix::fcntl::OFlag;
use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, fstatfs,
};

use crate::file::{FileError, open};

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

/// XFS (`linux/magic.h`; nix has no such constant for musl), ZFS on Linux (`include/sys/zfs_vfsops_os.h`) and bcachefs
/// (`linux/magic.h`).
const XFS_SUPER_MAGIC: FsType = FsType(0x5846_5342);
const ZFS_SUPER_MAGIC: FsType = FsType(0x2fc1_2fc1);
const BCACHEFS_SUPER_MAGIC: FsType = FsType(0xca45_1a4e);

/// File systems that no two machines have mounted at once; ext2 and ext3 have the number of ext4.
const LOCAL: [FsType; 8] = [
    BCACHEFS_SUPER_MAGIC,
    BTRFS_SUPER_MAGIC,
    EXT4_SUPER_MAGIC,
    F2FS_SUPER_MAGIC,
    OVERLAYFS_SUPER_MAGIC,
    TMPFS_MAGIC,
    XFS_SUPER_MAGIC,
    ZFS_SUPER_MAGIC,
];

/// Whether it is certain that no other machine uses the directory. An unknown file system may be a network file system.
pub fn is_local(directory: &File) -> io::Result<bool> {
    Ok(LOCAL.contains(&fstatfs(directory)?.filesystem_type()))
}
