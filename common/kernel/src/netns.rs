//! Network namespaces: opens one by its path, and runs code inside it.
//!
//! Only the calling thread enters the namespace, and it returns at once. Sockets and namespace files that were opened
//! inside keep belonging to it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

use cni_files::open;
use cni_model::netns::NetnsError;
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, fstatfs};

use crate::netlink::error::Errno;

/// The network namespace that the calling thread is in.
pub const OWN_NETNS: &str = "/proc/thread-self/ns/net";

/// `NSFS_MAGIC` of `linux/magic.h`.
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// The user namespace that this process is in.
const OWN_USERNS: &str = "/proc/self/ns/user";

/// The number of the first user namespace: `PROC_USER_INIT_INO` of `linux/proc_ns.h`.
const FIRST_USERNS: u64 = 0xEFFF_FFFD;

/// `DEFAULT_OVERFLOWUID` of `linux/highuid.h`: a user that has no number in the user namespace of this process.
const OVERFLOW_UID: libc::uid_t = 65534;

/// Requests of `linux/nsfs.h`.
const NS_GET_USERNS: u32 = 0xb701;
const NS_GET_NSTYPE: u32 = 0xb703;
const NS_GET_OWNER_UID: u32 = 0xb704;

/// An open network namespace.
#[derive(Debug)]
pub struct Netns {
    file: File,
}

impl Netns {
    /// The namespace of the calling thread.
    pub fn own() -> io::Result<Self> {
        Ok(Self { file: open(Path::new(OWN_NETNS), OFlag::O_RDONLY, 0)? })
    }

    /// Opens the namespace at a path, a file of `/run/netns` or `/proc/<pid>/ns/net`. The type of the file is checked
    /// first: opening a named pipe would block for ever.
    ///
    /// # Errors
    /// [`NetnsError::Gone`] if the path is missing, or is not a namespace: an empty file remains when a namespace is
    /// unmounted. [`NetnsError::Failed`] for everything else.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NetnsError> {
        let path = path.as_ref();
        let named = || path.to_string_lossy().into_owned();
        let gone = |reason: String| NetnsError::Gone { path: named(), reason };
        let failed = |source| NetnsError::Failed { path: named(), source };
        if path.as_os_str().is_empty() {
            return Err(gone("no path is given".to_owned()));
        }
        // Not by the standard library, which leaves this flag out where the C library is musl.
        let found = match open(path, OFlag::O_PATH, 0) {
            Ok(found) => found,
            Err(error) => {
                let number = error.raw_os_error().unwrap_or_default();
                let leads_nowhere = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP].contains(&number);
                return Err(if leads_nowhere { gone(Errno::new(number).to_string()) } else { failed(error) });
            }
        };
        let magic = fstatfs(&found).map_err(|errno| failed(errno.into()))?.filesystem_type();
        if magic != NSFS_MAGIC && magic != PROC_SUPER_MAGIC {
            return Err(gone("it is not a network namespace".to_owned()));
        }
        let again = format!("/proc/thread-self/fd/{}", found.as_raw_fd());
        Ok(Self { file: open(Path::new(&again), OFlag::O_NONBLOCK, 0).map_err(failed)? })
    }

    /// Opens the namespace of a socket, whichever namespace its thread is in now.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN` there, `ENOTTY` on kernels before 4.9.
    pub fn of_socket(socket: &impl AsRawFd) -> io::Result<Self> {
        // SAFETY: this request has no argument, and the kernel checks the descriptor.
        let fd = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGSKNS as _) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened the descriptor for this process, which has it nowhere else.
        Ok(Self::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Requires that it is a network namespace: the path may have led to another file of `/proc`.
    ///
    /// # Errors
    /// That of entering it otherwise.
    pub fn require_network(&self) -> io::Result<()> {
        // SAFETY: this request has no argument, and the kernel checks the descriptor.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), NS_GET_NSTYPE as _) } {
            libc::CLONE_NEWNET => Ok(()),
            // The kernel is older than 4.11, or the file is not a network namespace.
            _ => self.inside(|| ()),
        }
    }

    /// Returns whether a user other than root and `user` has made the user namespace that owns it, as with `unshare -Urn`. Root makes
    /// those of its containers. `false` where the kernel cannot tell: before Linux 4.11, or if that user has no number in the user
    /// namespace of this process.
    pub fn is_of_other_user(&self, user: libc::uid_t) -> bool {
        // SAFETY: this request has no argument, and the kernel checks the descriptor.
        let fd = unsafe { libc::ioctl(self.file.as_raw_fd(), NS_GET_USERNS as _) };
        if fd < 0 {
            return false;
        }
        // SAFETY: the kernel has just opened the descriptor for this process, which has it nowhere else.
        let owner = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let (Ok(of), Ok(own)) = (owner.metadata(), fs::metadata(OWN_USERNS)) else { return false };
        let is_own = (of.dev(), of.ino()) == (own.dev(), own.ino());
        let mut uid: libc::uid_t = 0;
        // SAFETY: this request writes a number of a user to its argument.
        let told = unsafe { libc::ioctl(owner.as_raw_fd(), NS_GET_OWNER_UID as _, &raw mut uid) };
        let is_known = uid != OVERFLOW_UID || own.ino() == FIRST_USERNS;
        told == 0 && !is_own && is_known && ![0, user].contains(&uid)
    }

    /// Whether both are the same namespace.
    pub fn is_same(&self, other: &Self) -> io::Result<bool> {
        let identity = |netns: &Self| netns.file.metadata().map(|file| (file.dev(), file.ino()));
        Ok(identity(self)? == identity(other)?)
    }

    /// Returns whether a path leads to this namespace, without opening it; `None` if it leads to no namespace of any kind.
    pub fn is_at(&self, path: &Path) -> io::Result<Option<bool>> {
        let own = self.file.metadata()?;
        let found = fs::metadata(path).ok().filter(|found| found.dev() == own.dev());
        Ok(found.map(|found| found.ino() == own.ino()))
    }

    /// The device and the number of its file, which a later namespace may get again.
    pub fn file_identity(&self) -> io::Result<String> {
        self.file.metadata().map(|file| format!("{}:{}", file.dev(), file.ino()))
    }

    /// The kernel's name of the namespace file, as in links of `/proc` and in lists of mounts.
    pub fn name(&self) -> io::Result<String> {
        self.number().map(|number| format!("net:[{number}]"))
    }

    /// The number of its file.
    pub fn number(&self) -> io::Result<u64> {
        self.file.metadata().map(|file| file.ino())
    }

    /// Runs `work` inside the namespace.
    ///
    /// # Panics
    /// When returning fails: then the process must end, since everything after that would change the wrong namespace.
    /// The binary's panic hook reports it to the runtime.
    pub fn inside<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let home = Self::own()?;
        setns(&self.file, CloneFlags::CLONE_NEWNET)?;
        let done = work();
        home.return_to();
        Ok(done)
    }

    /// Runs `work` inside a new namespace, which ends with the last socket that is opened there.
    ///
    /// # Panics As [`Netns::inside`].
    pub fn inside_new<T>(work: impl FnOnce() -> T) -> io::Result<T> {
        let home = Self::own()?;
        unshare(CloneFlags::CLONE_NEWNET)?;
        let done = work();
        home.return_to();
        Ok(done)
    }

    fn return_to(&self) {
        let way_back = || setns(&self.file, CloneFlags::CLONE_NEWNET);
        let back = way_back().or_else(|_| way_back());
        assert!(back.is_ok(), "could not return to the host's network namespace: {back:?}");
    }
}

/// The namespace in which work is done.
#[derive(Clone, Debug, Default)]
pub enum NetnsScope {
    /// The namespace of the calling thread.
    #[default]
    Current,
    /// Another one, which the thread enters while it works there.
    Other(Rc<Netns>),
}

impl NetnsScope {
    /// Runs `work` inside the namespace.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        match self {
            Self::Current => Ok(work()),
            Self::Other(netns) => netns.inside(work),
        }
    }
}

impl From<OwnedFd> for Netns {
    /// Wraps a namespace that another process has opened. A file that is not a namespace cannot be entered.
    fn from(fd: OwnedFd) -> Self {
        Self { file: File::from(fd) }
    }
}

impl From<Netns> for OwnedFd {
    fn from(netns: Netns) -> Self {
        netns.file.into()
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
