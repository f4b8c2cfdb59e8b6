//! What a daemon needs of the machine: its socket, which systemd has opened or it creates itself, the signal to end, and
//! waiting for several sources.

use std::env;
use std::fmt::Display;
use std::fs::{self, DirBuilder};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_files::{FileError, Lock, open_or_create, remove};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

/// The first descriptor that systemd passes on (`sd_listen_fds(3)`).
const FIRST_PASSED: i32 = 3;

/// The socket that systemd has opened for this process; none if it was started otherwise.
pub fn passed_listener() -> io::Result<Option<UnixListener>> {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let is_for_us = number("LISTEN_PID").and_then(|pid| u32::try_from(pid).ok()) == Some(std::process::id());
    match number("LISTEN_FDS").filter(|_| is_for_us) {
        None | Some(..=0) => Ok(None),
        Some(1) => {
            // SAFETY: fcntl(2) on a number asks whether it is a descriptor, and takes no memory.
            let is_open = unsafe { libc::fcntl(FIRST_PASSED, libc::F_SETFD, libc::FD_CLOEXEC) };
            let no_socket = "the descriptor passed through socket activation is no socket";
            Errno::result(is_open).map_err(|_| no_listener(no_socket))?;
            // SAFETY: the descriptor is open, and the process that has started this one has passed it to no other.
            Ok(Some(UnixListener::from(unsafe { OwnedFd::from_raw_fd(FIRST_PASSED) })))
        }
        Some(many) => Err(no_listener(format_args!("Too many ({many}) FDs passed through socket activation"))),
    }
}

/// A socket that is removed with the daemon. The lock prevents a second daemon; the socket of a killed daemon is
/// replaced.
pub struct OwnSocket {
    path: PathBuf,
    #[expect(dead_code, reason = "it is held until the daemon ends")]
    lock: Lock,
}

/// The time limit for the lock of a daemon that is just ending.
const PATIENCE: Duration = Duration::from_millis(500);

impl OwnSocket {
    pub fn listen(path: &Path) -> io::Result<(UnixListener, Self)> {
        let shown = path.display();
        let failed = |error| no_listener(format_args!("listen unix {shown}: {error}"));
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        }
        let lock_path = PathBuf::from(format!("{shown}.lock"));
        let refused = |error: FileError| no_listener(format_args!("{error}: {}", error.source));
        let file = open_or_create(&lock_path, 0o600).map_err(refused)?;
        let lock = Lock::exclusive(file, &lock_path, PATIENCE).map_err(no_listener)?;
        if is_listened_on(path).map_err(failed)? {
            let text = "bind: address already in use: another daemon listens there";
            return Err(no_listener(format_args!("listen unix {shown}: {text}")));
        }
        remove(path).map_err(refused)?;
        let listener = listen_privately(path).map_err(failed)?;
        Ok((listener, Self { path: path.to_owned(), lock }))
    }

    pub fn remove(self) {
        let removed = fs::remove_file(&self.path);
        removed.unwrap_or_else(|error| log::warn!("{} could not be removed: {error}", self.path.display()));
    }
}

/// Creates a socket that only its owner can connect to, with any umask, and listens on it. The call changes the umask
/// for a moment, so no other thread may create files then.
///
/// # Errors
/// If the kernel refuses, such as `EADDRINUSE` if the path exists.
fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

/// Whether a process listens on the socket at this path. A socket that a killed daemon has left has no listener.
fn is_listened_on(path: &Path) -> io::Result<bool> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(false),
        Err(error) => Err(error),
    }
}

fn no_listener(reason: impl Display) -> io::Error {
    io::Error::other(format!("Error getting listener: {reason}"))
}

/// Allows this process as many descriptors as it may have (`RLIMIT_NOFILE`); logs a refusal.
pub fn allow_most_descriptors() {
    let raised =
        getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    raised.unwrap_or_else(|errno| log::warn!("no more descriptors are allowed: {errno}"));
}

/// A descriptor that can be read once the process is to end: `SIGTERM` or `SIGINT`, which end it no more by themselves.
pub fn end_signal() -> io::Result<OwnedFd> {
    // SAFETY: all zero is a valid value, which sigemptyset sets anew; the set outlives all calls, and the kernel has just
    // made the descriptor for us.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = Errno::result(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Waits until one of these can be read, or the time is up; returns for each whether it can be read, or has ended.
pub fn wait(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
    // A part of a millisecond would be none, and the wait end too early.
    let limit = limit.map(|limit| limit + Duration::from_millis(1));
    let limit = limit.map_or(PollTimeout::NONE, |limit| PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX));
    match poll(&mut polled, limit) {
        Ok(_) | Err(Errno::EINTR) => Ok(polled.iter().map(|fd| fd.any().unwrap_or_default()).collect()),
        Err(errno) => Err(errno.into()),
    }
}
