//! Runs a program to its end within a time limit, with bytes as input and output.
//!
//! One thread serves the three pipes and watches the process, so no thread and no zombie is left, and nothing waits
//! for a grandchild that keeps the pipes open.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The end of a program, and its output.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// A program that could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("failed to start {program}: {source}")]
    Start { program: String, source: io::Error },
    /// Reading or writing its pipes failed; it was killed.
    #[error("communication with {program} failed: {source}")]
    Lost { program: String, source: io::Error },
    /// It printed too much, and was killed.
    #[error("{program} printed more than {} MiB", MOST_OUTPUT >> 20)]
    Flood { program: String },
    /// It took too long; it was killed.
    #[error("{program} did not end within {limit:?}")]
    Deadline { program: String, limit: Duration },
}

/// Runs a program with this process's environment and `changes` to it. It gets `input`, and may ignore it.
///
/// # Errors
/// [`ProcessError`]. A program that ends with a failure is not an error here.
pub fn run(
    program: &Path,
    arguments: &[&str],
    input: &[u8],
    changes: &[(&str, &OsStr)],
    limit: Duration,
) -> Result<Output, ProcessError> {
    run_with(program, (arguments, changes), input, limit, |_| None)
}

/// The same for a program that the kernel kills when this process ends, as by `SIGKILL`: what waits for a lock must not change rules
/// after somebody else has removed them. It gets its input after that is arranged.
///
/// # Errors
/// As [`run`].
pub fn run_bound(program: &Path, arguments: &[&str], input: &[u8], limit: Duration) -> Result<Output, ProcessError> {
    let pipe = bonding_pipe();
    run_with(program, (arguments, &[]), input, limit, |child| {
        let bound = pipe.and_then(|pipe| bind(child, pipe));
        bound.inspect_err(|error| log::warn!("{} would outlive this process: {error}", program.display())).ok()
    })
}

/// Runs a program. `bind` returns a pipe that is kept open while it runs.
fn run_with(
    program: &Path,
    (arguments, changes): (&[&str], &[(&str, &OsStr)]),
    input: &[u8],
    limit: Duration,
    bind: impl FnOnce(&Child) -> Option<PipeWriter>,
) -> Result<Output, ProcessError> {
    let name = || program.display().to_string();
    let started = Instant::now();
    let child = spawn(program, arguments, changes).map_err(|source| ProcessError::Start { program: name(), source })?;
    let _bond = bind(&child);
    match (ChildProcess { child, ended: false }).serve(input, started, limit) {
        Ok(ServeEnd::Ended(output)) => Ok(output),
        Ok(ServeEnd::Flooded) => Err(ProcessError::Flood { program: name() }),
        Ok(ServeEnd::Late) => Err(ProcessError::Deadline { program: name(), limit }),
        Err(source) => Err(ProcessError::Lost { program: name(), source }),
    }
}

/// Makes the exit statuses of children available to this process. If its parent ignored `SIGCHLD`, this process
/// inherits that, and the kernel discards the exit statuses of children.
pub fn keep_ended_children() -> io::Result<()> {
    // SAFETY: SIG_DFL is no handler, so nothing of ours runs in the context of a signal.
    let earlier = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    if earlier == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `linux/fcntl.h`: the signal that replaces `SIGIO`.
const F_SETSIG: libc::c_int = 10;

/// Makes a pipe whose reading end children inherit.
fn bonding_pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    control(&reader, libc::F_SETFD, 0)?;
    Ok((reader, writer))
}

/// Lets the kernel kill a child when the writing end is closed, as at the end of this process: the reading end, which the child has
/// inherited, sends it `SIGKILL` then (fcntl(2)). `PR_SET_PDEATHSIG` would do the same, but only the child itself can
/// ask for it, between `fork` and `exec`: that costs a copy of this process where `posix_spawn` needs none.
fn bind(child: &Child, (reader, writer): (PipeReader, PipeWriter)) -> io::Result<PipeWriter> {
    control(&reader, F_SETSIG, libc::SIGKILL)?;
    control(&reader, libc::F_SETOWN, child.id().cast_signed())?;
    control(&reader, libc::F_SETFL, libc::O_ASYNC)?;
    Ok(writer)
}

fn control(pipe: &PipeReader, command: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: these commands take an integer and no memory; the descriptor is open.
    let done = unsafe { libc::fcntl(pipe.as_raw_fd(), command, value) };
    Errno::result(done).map(|_| ()).map_err(io::Error::from)
}

/// The most that a program may print to standard output, and to standard error.
const MOST_OUTPUT: usize = 16 << 20;

/// How often the start of a program that is being replaced is repeated, and the pause in between.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Starts a program. If it is just being written (`ETXTBSY`), waits up to a second.
fn spawn(program: &Path, arguments: &[&str], changes: &[(&str, &OsStr)]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).envs(changes.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(BUSY_PAUSE),
            started => return started,
        }
    }
    command.spawn()
}

/// The outcome of serving a child.
enum ServeEnd {
    /// It has ended.
    Ended(Output),
    /// It has printed more than is kept.
    Flooded,
    /// The time was up first.
    Late,
}

/// A child process. If it is dropped before it has ended, it is killed and reaped.
struct ChildProcess {
    child: Child,
    ended: bool,
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            log::warn!("process {} could not be killed: {error}", self.child.id());
        }
    }
}

impl ChildProcess {
    /// Writes and reads the child's pipes until it ends.
    fn serve(&mut self, input: &[u8], started: Instant, limit: Duration) -> io::Result<ServeEnd> {
        let mut stdin = InputPipe::new(self.child.stdin.take(), input)?;
        let mut stdout = OutputPipe::new(self.child.stdout.take())?;
        let mut stderr = OutputPipe::new(self.child.stderr.take())?;
        let exit = watch(&self.child)?;
        loop {
            let left = limit.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(ServeEnd::Late);
            }
            let pipes = [stdin.interest(), stdout.interest(), stderr.interest()];
            wait_for(pipes.into_iter().flatten().collect(), exit.as_ref(), left)?;
            // Asked before the pipes are emptied: what an ended child wrote is all in them.
            let status = self.child.try_wait()?;
            self.ended = status.is_some();
            stdin.write()?;
            let are_full = [stdout.read(MOST_OUTPUT)?, stderr.read(MOST_OUTPUT)?];
            if are_full.contains(&true) {
                return Ok(ServeEnd::Flooded);
            }
            if let Some(status) = status {
                let (stdout, stderr) = (stdout.into_bytes(), stderr.into_bytes());
                return Ok(ServeEnd::Ended(Output { status, stdout, stderr }));
            }
        }
    }
}

/// How often to look whether a child has ended, if its end does not wake the process.
const TICK: Duration = Duration::from_millis(1);

/// Waits until a pipe is ready, the child ends, or the time is up.
fn wait_for<'a>(mut fds: Vec<PollFd<'a>>, exit: Option<&'a OwnedFd>, left: Duration) -> io::Result<()> {
    fds.extend(exit.map(|exit| PollFd::new(exit.as_fd(), PollFlags::POLLIN)));
    let left = if exit.is_some() { left.max(TICK) } else { TICK };
    match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A descriptor that becomes readable when the child ends; `None` before Linux 5.3, and where a container
/// engine refuses it.
fn watch(child: &Child) -> io::Result<Option<OwnedFd>> {
    // SAFETY: pidfd_open(2) takes two integers and no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    match Errno::result(fd) {
        Ok(fd) => {
            let fd = i32::try_from(fd).map_err(io::Error::other)?;
            // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
            Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
        }
        Err(error) => {
            log::debug!("the end of {} is watched by the clock: pidfd_open: {error}", child.id());
            Ok(None)
        }
    }
}

/// The rest of a child's input, and the pipe that takes it.
struct InputPipe<'a> {
    pipe: Option<ChildStdin>,
    rest: &'a [u8],
}

impl<'a> InputPipe<'a> {
    fn new(pipe: Option<ChildStdin>, rest: &'a [u8]) -> io::Result<Self> {
        pipe.iter().try_for_each(set_nonblocking)?;
        Ok(Self { pipe, rest })
    }

    /// The event to wait for before the next [`InputPipe::write`].
    fn interest(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLOUT))
    }

    /// Writes as much as the pipe accepts now, and closes it after the last byte or if the reader has closed it.
    fn write(&mut self) -> io::Result<()> {
        while let Some(pipe) = &mut self.pipe {
            if self.rest.is_empty() {
                self.pipe = None;
                return Ok(());
            }
            match pipe.write(self.rest) {
                Ok(written) => self.rest = &self.rest[written..],
                Err(error) if error.kind() == ErrorKind::BrokenPipe => self.pipe = None,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The output of a child so far, and its pipe.
struct OutputPipe<P> {
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<P: Read + AsFd> OutputPipe<P> {
    fn new(pipe: Option<P>) -> io::Result<Self> {
        pipe.iter().try_for_each(set_nonblocking)?;
        Ok(Self { pipe, bytes: Vec::new() })
    }

    /// The event to wait for before the next [`OutputPipe::read`].
    fn interest(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
    }

    /// Reads what is available now, and closes the pipe at its end. If the child keeps printing, it stops at more than
    /// `most` bytes. Returns whether it has printed more than that.
    fn read(&mut self, most: usize) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(false);
        };
        let room = (most + 1).saturating_sub(self.bytes.len());
        match pipe.take(room as u64).read_to_end(&mut self.bytes) {
            Ok(_) if self.bytes.len() > most => return Ok(true),
            Ok(_) => self.pipe = None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(false)
    }

    fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Makes reads and writes of a pipe return without waiting.
fn set_nonblocking(pipe: &impl AsFd) -> io::Result<()> {
    // SAFETY: FIONBIO reads one int, which lives until the call returns; the descriptor is open.
    let done = unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONBIO, &1) };
    Errno::result(done).map(|_| ()).map_err(io::Error::from)
}

#[cfg(test)]
mod tests;
