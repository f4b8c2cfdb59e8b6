//! The parent's ends of a child's pipes: one kind to fill, one to empty. Neither ever waits.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::ChildStdin;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};

/// The rest of a child's input, and the pipe that takes it.
pub(super) struct Feed<'a> {
    pipe: Option<ChildStdin>,
    rest: &'a [u8],
}

impl<'a> Feed<'a> {
    pub(super) fn new(pipe: Option<ChildStdin>, rest: &'a [u8]) -> io::Result<Self> {
        pipe.iter().try_for_each(set_nonblocking)?;
        Ok(Self { pipe, rest })
    }

    /// What to wait for before the next [`Feed::write`].
    pub(super) fn interest(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLOUT))
    }

    /// Writes as much as the pipe accepts now, and closes it after the last byte or when nobody reads it.
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

/// Whether there is room for more of what a child prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is.
    Left,
    /// It has printed too much.
    Full,
}

/// What a child printed so far, and the pipe it comes from.
pub(super) struct Drain<P> {
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<P: Read + AsFd> Drain<P> {
    pub(super) fn new(pipe: Option<P>) -> io::Result<Self> {
        pipe.iter().try_for_each(set_nonblocking)?;
        Ok(Self { pipe, bytes: Vec::new() })
    }

    /// What to wait for before the next [`Drain::read`].
    pub(super) fn interest(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
    }

    /// Reads what is available now, and closes the pipe at its end. If the child goes on printing meanwhile, stops
    /// when there are more than `most` bytes.
    pub(super) fn read(&mut self, most: usize) -> io::Result<Room> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(Room::Left);
        };
        let room = (most + 1).saturating_sub(self.bytes.len());
        match pipe.take(room as u64).read_to_end(&mut self.bytes) {
            Ok(_) if self.bytes.len() > most => return Ok(Room::Full),
            Ok(_) => self.pipe = None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(Room::Left)
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
