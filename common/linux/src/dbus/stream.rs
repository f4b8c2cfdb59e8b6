//! A stream to a socket on this machine, on which all work ends by a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, connect, setsockopt, socket, sockopt};
use nix::sys::time::TimeVal;

use super::address::Endpoint;

/// A connected socket.
#[derive(Debug)]
pub(super) struct Stream {
    socket: UnixStream,
    deadline: Instant,
}

impl Stream {
    /// Connects; a listener that lets its queue run full is waited for until the deadline.
    pub(super) fn connect(endpoint: &Endpoint, limit: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + limit;
        let address = endpoint.socket_address()?;
        let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        let patience =
            TimeVal::new(i64::try_from(limit.as_secs()).unwrap_or(i64::MAX), i64::from(limit.subsec_micros()));
        setsockopt(&socket, sockopt::SendTimeout, &patience)?;
        connect(socket.as_raw_fd(), &address)?;
        Ok(Self { socket: socket.into(), deadline })
    }

    /// Begins anew to count the time.
    pub(super) fn limit(&mut self, limit: Duration) {
        self.deadline = Instant::now() + limit;
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            self.socket.set_write_timeout(Some(self.remaining()?))?;
            let written = retried(|| self.socket.write(rest))?;
            rest = rest.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Reads what is there, at least one byte.
    pub(super) fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.remaining()?))?;
        match retried(|| self.socket.read(buffer))? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }

    pub(super) fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            done += self.read_some(buffer.get_mut(done..).unwrap_or_default())?;
        }
        Ok(())
    }

    fn remaining(&self) -> io::Result<Duration> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(remaining) }
    }
}

fn retried(mut work: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match work() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
