//! The parent's ends of a child's pipes: one type to write, one to read. Neither ever blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::ChildStdin;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};

/// The rest of a child's input, and the pipe that takes it.
pub(super) struct InputPipe<'a> {
    pipe: Option<ChildStdin>,
    rest: &'a [u8],
}

impl<'a> InputPipe<'a> {
    pub(super) fn new(pipe: Option<ChildStdin>, rest: &'a [u8]) -> io::Result<Self> {
        pipe.iter().try_for_each(set_nonblocking)?;
        Ok(Self { pipe, rest })
    }

    /// The event to wait for before the next [`InputPipe::write`].
    pub(super) fn interest(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLOUT))
    }

    /// Writes as much as the pipe accepts now, and closes it after the last byte or if the reader has closed it.
    pub(super) fn write(&mut self) -> io::Result<()> {
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

/// Whether a child may print more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputSpace {
    /// There is.
    Left,
    /// The child has printed too much.
    Full,
}

/// The output of a child so far, and its pipe.
pub(super) struct OutputPipe<P> {
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<P: Read + AsFd> OutputPipe<P> {
    pub(super) fn new(pipe: Option<P>) -> io::Result<Self> {
        pipe.iter().try_for_each(set_nonblocking)?;
        Ok(Self { pipe, bytes: Vec::new() })
    }

    /// The event to wait for before the next [`OutputPipe::read`].
    pub(super) fn interest(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
    }

    /// Reads what is available now, and closes the pipe at its end. If the child keeps printing, it stops at more than
    /// `most` bytes.
    pub(super) fn read(&mut self, most: usize) -> io::Result<OutputSpace> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(OutputSpace::Left);
        };
        let room = (most + 1).saturating_sub(self.bytes.len());
        match pipe.take(room as u64).read_to_end(&mut self.bytes) {
            Ok(_) if self.bytes.len() > most => return Ok(OutputSpace::Full),
            Ok(_) => self.pipe = None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(OutputSpace::Left)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Makes reads and writes of a pipe return without waiting.
fn set_nonblocking(pipe: &impl AsFd) -> io::Result<()> {
    // SAFETY: FIONBIO reads one int, which lives until the call returns; the descriptor is open.
    let done = unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONBIO, &1) };
    Errno::result(done).map(|_| ()).map_err(io::Error::from)
}
