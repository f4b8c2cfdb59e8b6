//! The mount namespaces of the machine. A process sees only what is mounted below its root, and a mount namespace may have no
//! process at all: then this process looks into it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use cni_core::error::Error;
use cni_kernel::netns::Netns;
use cni_model::netns::NetnsError;
use nix::fcntl::{OFlag, open, openat};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;

use super::limits::Limits;

/// So many paths are kept of one namespace.
const MOST_PATHS: usize = 8;

/// What is known of the mount namespaces, by the kernel's names for them.
#[derive(Debug, Default)]
pub struct MountNamespaces(BTreeMap<String, MountNamespace>);

/// What is known of one.
#[derive(Debug, Default)]
struct MountNamespace {
    /// The roots of processes whose mounts have been read.
    roots: BTreeSet<PathBuf>,
    is_whole: bool,
    /// Where the namespace can be entered.
    paths: Vec<PathBuf>,
}

impl MountNamespaces {
    /// Adds a path that leads to a mount namespace. Returns whether some of its mounts may not have been read.
    pub fn add(&mut self, name: &str, path: PathBuf) -> bool {
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), MountNamespace::default());
        }
        let Some(known) = self.0.get_mut(name) else { return false };
        if !known.is_whole && known.paths.len() < MOST_PATHS {
            known.paths.push(path);
        }
        !known.is_whole
    }

    /// Whether the mounts below the root of a process have not been read.
    pub fn is_new_root(&mut self, name: &str, root: &Path) -> bool {
        self.0.get_mut(name).is_some_and(|known| known.roots.insert(root.to_owned()))
    }

    /// Takes note that all mounts of a namespace have been read.
    pub fn set_whole(&mut self, name: &str) {
        if let Some(known) = self.0.get_mut(name) {
            known.is_whole = true;
        }
    }

    /// Returns a namespace whose mounts have not all been read, and the paths to it. Returns each once.
    pub fn take_partial(&mut self) -> Option<(String, Vec<PathBuf>)> {
        let (name, partial) = self.0.iter_mut().find(|(_, known)| !known.is_whole)?;
        partial.is_whole = true;
        Some((name.clone(), std::mem::take(&mut partial.paths)))
    }
}

/// A mount namespace as this process sees it from its root.
#[derive(Debug)]
pub struct Entered {
    /// Its root.
    pub root: OwnedFd,
    /// Its mounts.
    pub table: MountTable,
}

impl Entered {
    /// A path to the root, for as long as it is open.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd()))
    }
}

/// Looks into a mount namespace by a path; `None` if the path does not lead there, or if the limits exclude it: any user can make many,
/// with copies of what is mounted elsewhere.
///
/// # Errors
/// If this process may not enter it.
pub fn enter(path: &Path, name: &str, limits: Limits) -> Result<Option<Entered>, Error> {
    let namespace = match Netns::open(path) {
        Ok(namespace) => namespace,
        Err(NetnsError::Gone { .. }) => return Ok(None),
        Err(error @ NetnsError::Failed { .. }) => return Err(error.into()),
    };
    let failed = |source| NetnsError::Failed { path: path.to_string_lossy().into_owned(), source };
    if format!("{MOUNT}{}]", namespace.number().map_err(failed)?) != name || limits.exclude(&namespace) {
        return Ok(None);
    }
    // A thread that has entered a mount namespace cannot return without its former root; so it ends.
    let looked = thread::scope(|scope| {
        let look = scope.spawn(|| {
            let proc = open("/proc", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
            unshare(CloneFlags::CLONE_FS)?;
            setns(namespace.as_fd(), CloneFlags::CLONE_NEWNS)?;
            let root = open("/", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
            let mounts = openat(&proc, "thread-self/mountinfo", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
            let mut bytes = Vec::new();
            File::from(mounts).read_to_end(&mut bytes)?;
            Ok(Entered { root, table: MountTable::parse(&bytes) })
        });
        look.join().unwrap_or_else(|_| Err(io::Error::other("the thread that looks into it has panicked")))
    });
    Ok(Some(looked.map_err(failed)?))
}

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
    /// Parses `mountinfo` of proc(5). Its names may be other bytes than UTF-8.
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
    fn a_namespace_is_partial_until_all_of_it_was_seen() {
        let mut known = MountNamespaces::default();
        assert!(known.add("mnt:[1]", PathBuf::from("/proc/1/ns/mnt")));
        assert!(known.is_new_root("mnt:[1]", Path::new("/a")));
        assert!(!known.is_new_root("mnt:[1]", Path::new("/a")));
        assert!(known.add("mnt:[1]", PathBuf::from("/proc/2/ns/mnt")));
        known.add("mnt:[2]", PathBuf::from("/proc/3/ns/mnt"));
        known.set_whole("mnt:[2]");
        assert!(!known.add("mnt:[2]", PathBuf::from("/proc/4/ns/mnt")));
        let paths = ["/proc/1/ns/mnt", "/proc/2/ns/mnt"].map(PathBuf::from).to_vec();
        assert_eq!(known.take_partial(), Some(("mnt:[1]".to_owned(), paths)));
        assert_eq!(known.take_partial(), None);
    }

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
