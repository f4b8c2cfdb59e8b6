//! The mount namespaces of the machine. A process sees only what is mounted below its root, and a mount namespace may have no
//! process at all: then this process looks into it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use cni_core::error::Error;
use cni_kernel::netns::Netns;
use cni_model::netns::NetnsError;
use nix::fcntl::{OFlag, open, openat};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;

use super::limits::Limits;
use super::mount_table::{MOUNT, MountTable};

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
}
