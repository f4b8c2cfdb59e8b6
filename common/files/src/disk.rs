//! Tells whether a file system is used by this machine alone.

use std::fs::File;
use std::io;

use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, fstatfs,
};

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
