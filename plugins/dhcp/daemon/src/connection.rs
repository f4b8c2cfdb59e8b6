//! A plugin that asks: what it has said so far, and the namespace that came along.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

use cni_dhcp::moment::Moment;
use cni_dhcp::protocol::{self, Answer, Verb};
use cni_kernel::netns::Netns;
use cni_linux::unix;

/// What a plugin of the reference begins with, and what it is told.
const OTHER_MAKE: &[u8; 4] = b"CONN";
const TO_OTHER_MAKE: &[u8] =
    b"HTTP/1.0 500 the DHCP daemon is of another make: replace the plugin dhcp as well\r\n\r\n";

/// What has come.
pub enum Said {
    /// Not all of it yet, or nothing more.
    Nothing,
    /// A question.
    Question(Box<Verb>),
    /// One that is not understood, with the answer to it.
    Odd(Answer),
    /// Nobody is there any more.
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

    pub fn read(&mut self) -> Said {
        match unix::take(&self.stream, &mut self.buffer) {
            Ok((0, _)) => return Said::End,
            Ok((_, fd)) => self.netns = fd.map(Netns::from).or(self.netns.take()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Said::Nothing,
            Err(error) => {
                log::debug!("a plugin's connection has ended: {error}");
                return Said::End;
            }
        }
        let Some((length, rest)) = self.buffer.split_first_chunk::<4>() else { return Said::Nothing };
        if length == OTHER_MAKE {
            self.write(TO_OTHER_MAKE);
            return Said::End;
        }
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > unix::LONGEST || self.silent_until.is_none() {
            return Said::End;
        }
        let Some(question) = rest.get(..length) else { return Said::Nothing };
        self.silent_until = None;
        match protocol::question(question) {
            Ok(verb) => Said::Question(Box::new(verb)),
            Err(refusal) => Said::Odd(Answer::Refused(refusal)),
        }
    }

    pub fn answer(&self, answer: &Answer) {
        self.write(&unix::framed(protocol::text(answer).as_bytes()));
    }

    /// Whoever does not take a few bytes at once does not wait for them.
    fn write(&self, bytes: &[u8]) {
        let written = (&self.stream).write_all(bytes);
        written.unwrap_or_else(|error| log::debug!("a plugin did not take its answer: {error}"));
    }
}
