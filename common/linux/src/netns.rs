//! Network namespaces: opening one by its path, and working inside it for a moment.
//!
//! Only the calling thread moves, and it moves back at once; sockets and namespace files that were opened
//! inside keep belonging to it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

use cni_plugin::host::NetnsError;
use nix::sched::{CloneFlags, setns};
use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, fstatfs};

use crate::netlink::Errno;

/// `NSFS_MAGIC` of `linux/magic.h`.
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// An open network namespace.
#[derive(Debug)]
pub struct Netns {
    file: File,
}

impl Netns {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// When `/proc` does not show it.
    pub fn own() -> io::Result<Self> {
        Ok(Self { file: File::open("/proc/thread-self/ns/net")? })
    }

    /// Opens the namespace at a path, a file of `/run/netns` or `/proc/<pid>/ns/net`.
    ///
    /// # Errors
    /// [`NetnsError::Gone`] when nothing is there, or a file that is not a namespace, which remains when a namespace is
    /// unmounted. [`NetnsError::Failed`] for everything else.
    pub fn open(path: &str) -> Result<Self, NetnsError> {
        let gone = |reason: String| NetnsError::Gone { path: path.to_owned(), reason };
        let failed = |source| NetnsError::Failed { path: path.to_owned(), source };
        if path.is_empty() {
            return Err(gone("no path is given".to_owned()));
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(gone(format!(
                    "failed to Statfs {path:?}: {}",
                    Errno::new(error.raw_os_error().unwrap_or(libc::EIO))
                )));
            }
            Err(error) => return Err(failed(error)),
        };
        let magic = fstatfs(&file).map_err(|errno| failed(errno.into()))?.filesystem_type();
        if magic == NSFS_MAGIC || magic == PROC_SUPER_MAGIC {
            Ok(Self { file })
        } else {
            Err(gone(format!("unknown FS magic on {path:?}: {:x}", magic.0)))
        }
    }

    /// Whether a path leads to this namespace. A path that cannot be opened does not.
    ///
    /// # Errors
    /// When this namespace itself cannot be examined.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = self.file.metadata()?;
        Ok(path.metadata().is_ok_and(|other| (other.dev(), other.ino()) == (own.dev(), own.ino())))
    }

    /// Runs `work` inside the namespace.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    ///
    /// # Panics
    /// When returning fails: then the process must end, since everything after that would change the wrong namespace.
    /// The binary's panic hook reports it to the runtime.
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let home = Self::own()?;
        setns(&self.file, CloneFlags::CLONE_NEWNET)?;
        let done = work();
        let way_back = || setns(&home.file, CloneFlags::CLONE_NEWNET);
        let back = way_back().or_else(|_| way_back());
        assert!(back.is_ok(), "could not return to the host's network namespace: {back:?}");
        Ok(done)
    }
}

/// The namespace that something belongs to.
#[derive(Clone, Debug, Default)]
pub enum NetnsScope {
    /// That of the calling thread.
    #[default]
    Current,
    /// Another, which the thread enters for as long as it works there.
    Other(Rc<Netns>),
}

impl NetnsScope {
    /// Runs `work` inside the namespace.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        match self {
            Self::Current => Ok(work()),
            Self::Other(netns) => netns.inside(work),
        }
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
