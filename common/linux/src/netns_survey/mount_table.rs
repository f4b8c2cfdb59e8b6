//! The namespaces that are mounted, by `mountinfo` of proc(5).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// How the kernel names the files of network namespaces, and of mount namespaces; a number follows.
pub const NETWORK: &str = "net:[";
pub const MOUNT: &str = "mnt:[";

/// What a process sees of the mounts of its mount namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MountTable {
    /// The mounted network namespaces, with their places below the root of the process.
    pub networks: Vec<(String, PathBuf)>,
    /// The same for mount namespaces.
    pub mounts: Vec<(String, PathBuf)>,
    /// Whether something is mounted at the root. It is missing where the root of the process is a folder, or has itself been
    /// unmounted.
    pub has_root: bool,
}

impl MountTable {
    /// Parses the file. Its names may be other bytes than UTF-8.
    pub fn parse(mountinfo: &[u8]) -> Self {
        let mut table = Self::default();
        for line in mountinfo.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b' ').skip(3);
            let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
            table.has_root |= point == b"/";
            let place = || PathBuf::from(OsString::from_vec(decoded(point)));
            match std::str::from_utf8(root) {
                Ok(name) if name.starts_with(NETWORK) => table.networks.push((name.to_owned(), place())),
                Ok(name) if name.starts_with(MOUNT) => table.mounts.push((name.to_owned(), place())),
                Ok(_) | Err(_) => {}
            }
        }
        table
    }
}

/// A place below a root that leads into a mount namespace.
pub fn below(root: &Path, place: &Path) -> PathBuf {
    root.join(place.strip_prefix("/").unwrap_or(place))
}

/// Decodes three octal digits behind a backslash, as for a blank.
fn decoded(name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, others)) = rest.split_first() {
        let octal = others.get(..3).filter(|_| first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let value = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { &others[3..] } else { others };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_found_where_they_are_mounted() {
        let mountinfo = b"\
20 1 0:22 / / rw - ext4 /dev/vda rw
25 20 0:23 / /run/\xff rw,nosuid - tmpfs tmpfs rw
30 25 0:4 net:[4026532296] /run/netns/a rw shared:5 - nsfs nsfs rw
31 25 0:4 mnt:[4026532297] /run/mnt rw - nsfs nsfs rw
32 25 0:4 net:[4026532298] /run/net\\040ns/\\134b\\012\xfe rw - nsfs nsfs rw
33 25 0:4 uts:[4026532299] /run/uts rw - nsfs nsfs rw

34
";
        let at = |name: &str, place: &[u8]| (name.to_owned(), PathBuf::from(OsString::from_vec(place.to_vec())));
        let networks = vec![at("net:[4026532296]", b"/run/netns/a"), at("net:[4026532298]", b"/run/net ns/\\b\n\xfe")];
        let mounts = vec![at("mnt:[4026532297]", b"/run/mnt")];
        assert_eq!(MountTable::parse(mountinfo), MountTable { networks, mounts, has_root: true });
        assert_eq!(MountTable::parse(b"21 20 0:22 / /run rw - tmpfs t rw\n"), MountTable::default());
    }

    #[test]
    fn a_backslash_without_three_digits_stays() {
        for (name, expected) in
            [("a\\04", "a\\04"), ("\\", "\\"), ("\\899", "\\899"), ("\\777", "\\777"), ("\\101", "A")]
        {
            assert_eq!(decoded(name.as_bytes()), expected.as_bytes(), "{name}");
        }
    }
}
