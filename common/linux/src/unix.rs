//! Asks a daemon over a UNIX socket: each message has its length in front, and the first carries an open namespace.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// The most that a message may hold.
pub const LONGEST: usize = 1 << 20;
/// The time limit for a daemon to accept a question, and to say how long it will take.
const FIRST: Duration = Duration::from_secs(10);
/// The beginning of an answer of the reference's daemon, in place of a length.
const OTHER_MAKE: [u8; 4] = *b"HTTP";

/// Asks a daemon, and waits for its last answer.
pub fn ask(
    call: &DaemonCall,
    netns: Option<BorrowedFd<'_>>,
    patience: AnswerTimeout<'_>,
) -> Result<Vec<u8>, DaemonError> {
    let socket = || call.socket.clone();
    let lost = |source| DaemonError::Lost { socket: socket(), source };
    let stream =
        UnixStream::connect(&call.socket).map_err(|source| DaemonError::Absent { socket: socket(), source })?;
    stream.set_write_timeout(Some(FIRST)).map_err(lost)?;
    // A daemon of other plugins may have ended the connection before it has read all; it says who it is all the same.
    let sent = send(&stream, call.question.as_bytes(), netns);
    let mut limit = FIRST;
    loop {
        let end = Instant::now() + limit;
        let answer = match receive(&stream, end) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Err(DaemonError::OtherMake { socket: socket() }),
            Err(error) if is_late(&error) => return Err(DaemonError::Late { socket: socket(), limit }),
            Err(error) => return Err(lost(sent.err().unwrap_or(error))),
        };
        match patience(&answer) {
            Some(more) => limit = more,
            None => return Ok(answer),
        }
    }
}

/// A message with its length before it.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), message].concat()
}

fn send(mut stream: &UnixStream, message: &[u8], netns: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = framed(message);
    let fds: Vec<i32> = netns.iter().map(AsRawFd::as_raw_fd).collect();
    let beside = [ControlMessage::ScmRights(&fds)];
    let beside = if fds.is_empty() { &[][..] } else { &beside };
    let parts = [io::IoSlice::new(&bytes)];
    let sent = sendmsg::<()>(stream.as_raw_fd(), &parts, beside, MsgFlags::MSG_NOSIGNAL, None)?;
    stream.write_all(bytes.get(sent..).unwrap_or_default())
}

/// Receives a message; `None` from a daemon of the reference.
fn receive(stream: &UnixStream, end: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    fill(stream, &mut length, end)?;
    if length == OTHER_MAKE {
        return Ok(None);
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("an answer of {length} bytes")));
    }
    let mut message = vec![0; length];
    fill(stream, &mut message, end)?;
    Ok(Some(message))
}

fn fill(mut stream: &UnixStream, mut room: &mut [u8], end: Instant) -> io::Result<()> {
    while !room.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(room) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => room = room.get_mut(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Takes what a plugin has sent so far, and the namespace beside it; nothing once it has ended the connection.
pub fn take(stream: &UnixStream, into: &mut Vec<u8>) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut room = [0; 4096];
    let mut beside = cmsg_space!([i32; 4]);
    let mut parts = [io::IoSliceMut::new(&mut room)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let received = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut beside), flags)?;
    let mut files = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = message {
            // SAFETY: the kernel has just made these descriptors for this process, and nobody else knows them.
            files.extend(fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    let count = received.bytes;
    into.extend(room.get(..count).unwrap_or_default());
    Ok((count, files.pop()))
}
