//! A connection of a plugin: what it has sent so far, and the namespace that it passed.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use cni_dhcp::client::Moment;
use cni_dhcp::protocol::{self, DaemonAnswer, Operation};
use cni_kernel::netns::Netns;
use cni_linux::unix;

/// The first bytes of the reference's plugin, and the answer to it.
const OTHER_MAKE: &[u8; 4] = b"CONN";
const TO_OTHER_MAKE: &[u8] =
    b"HTTP/1.0 500 the DHCP daemon belongs to other plugins: replace the plugin dhcp as well\r\n\r\n";

/// The outcome of reading.
pub enum ReadEvent {
    /// Not all of it yet, or nothing more.
    Nothing,
    /// A question.
    Question(Box<Operation>),
    /// One that is not understood, with the answer to it.
    Odd(DaemonAnswer),
    /// The plugin has closed the connection.
    End,
}

pub struct Connection {
    pub stream: UnixStream,
    /// The namespace that came along.
    pub netns: Option<Netns>,
    /// Until when the question may come; it has come if none.
    pub silent_until: Option<Moment>,
    buffer: Vec<u8>,
}

impl Connection {
    pub const fn new(stream: UnixStream, silent_until: Moment) -> Self {
        Self { stream, netns: None, silent_until: Some(silent_until), buffer: Vec::new() }
    }

    pub fn read(&mut self) -> ReadEvent {
        match unix::take(&self.stream, &mut self.buffer) {
            Ok((0, _)) => return ReadEvent::End,
            Ok((_, fd)) => self.netns = fd.map(Netns::from).or(self.netns.take()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return ReadEvent::Nothing,
            Err(error) => {
                log::debug!("a plugin's connection has ended: {error}");
                return ReadEvent::End;
            }
        }
        let Some((length, rest)) = self.buffer.split_first_chunk::<4>() else { return ReadEvent::Nothing };
        if length == OTHER_MAKE {
            self.write(TO_OTHER_MAKE);
            return ReadEvent::End;
        }
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > unix::LONGEST || self.silent_until.is_none() {
            return ReadEvent::End;
        }
        let Some(question) = rest.get(..length) else { return ReadEvent::Nothing };
        self.silent_until = None;
        match protocol::question(question) {
            Ok(verb) => ReadEvent::Question(Box::new(verb)),
            Err(refusal) => ReadEvent::Odd(DaemonAnswer::Refused(refusal)),
        }
    }

    pub fn answer(&self, answer: &DaemonAnswer) {
        self.write(&unix::framed(protocol::text(answer).as_bytes()));
    }

    /// Writes without waiting: a plugin that does not read a few bytes at once gets none.
    fn write(&self, bytes: &[u8]) {
        let written = (&self.stream).write_all(bytes);
        written.unwrap_or_else(|error| log::debug!("a plugin did not take its answer: {error}"));
    }
}
