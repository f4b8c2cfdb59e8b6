//! A connection to a bus: D-Bus specification, "Authentication Protocol" and "Message Bus Messages".

use std::io::{self, ErrorKind};
use std::num::NonZeroU32;
use std::time::Duration;

use cni_core::error::{Code, Failure};

use super::address::Endpoint;
use super::message::{Answer, Call, FIXED, Incoming, Message, MessageError, Reply, Start};
use super::stream::Stream;

/// A bus that cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// None of the addresses is one on this machine.
    #[error("{list:?} has no address of a bus on this machine")]
    NoAddress {
        /// The addresses.
        list: String,
    },
    /// Nobody listens.
    #[error("there is no bus at {endpoint}")]
    Absent {
        /// The address.
        endpoint: Endpoint,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The bus does not answer in time.
    #[error("the bus at {endpoint} gave no answer within {limit:?}")]
    Silent {
        /// The address.
        endpoint: Endpoint,
        /// How long it was waited.
        limit: Duration,
    },
    /// The connection fails.
    #[error("the bus at {endpoint} cannot be talked to")]
    Broken {
        /// The address.
        endpoint: Endpoint,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The bus does not let the process in.
    #[error("the bus at {endpoint} answers {answer:?} to the user {user}")]
    Unwelcome {
        /// The address.
        endpoint: Endpoint,
        /// The user of the process.
        user: u32,
        /// What the bus says.
        answer: String,
    },
    /// A message breaks the format.
    #[error("the bus at {endpoint} is not understood")]
    Message {
        /// The address.
        endpoint: Endpoint,
        /// What is wrong.
        #[source]
        source: MessageError,
    },
}

impl Failure for BusError {
    fn code(&self) -> Code {
        match self {
            Self::NoAddress { .. } | Self::Absent { .. } => Code::Program,
            Self::Silent { .. } => Code::TryAgain,
            Self::Broken { .. } | Self::Unwelcome { .. } | Self::Message { .. } => Code::Io,
        }
    }
}

/// A connection to a bus, which knows us by now.
#[derive(Debug)]
pub struct Bus {
    endpoint: Endpoint,
    stream: Stream,
    serial: NonZeroU32,
    limit: Duration,
}

impl Bus {
    /// Connects to the first of the addresses where somebody listens. That, and each call later on, is given
    /// up after `limit`.
    ///
    /// # Errors
    /// The last address's.
    pub fn connect(list: &str, limit: Duration) -> Result<Self, BusError> {
        let mut failed = BusError::NoAddress { list: list.to_owned() };
        for endpoint in Endpoint::parse_list(list) {
            match Self::join(endpoint, limit) {
                Ok(bus) => return Ok(bus),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn join(endpoint: Endpoint, limit: Duration) -> Result<Self, BusError> {
        let stream = match Stream::connect(&endpoint, limit) {
            Ok(stream) => stream,
            Err(source) if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&source.kind()) => {
                return Err(BusError::Absent { endpoint, source });
            }
            Err(source) => return Err(failed(&endpoint, limit, source)),
        };
        let mut bus = Self { endpoint, stream, serial: NonZeroU32::MIN, limit };
        bus.authenticate()?;
        bus.greet()?;
        Ok(bus)
    }

    /// Tells the user's number, which the kernel vouches for: the mechanism `EXTERNAL`.
    fn authenticate(&mut self) -> Result<(), BusError> {
        let user = nix::unistd::geteuid().as_raw();
        let number: String = user.to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
        let sent = self.stream.write_all(format!("\0AUTH EXTERNAL {number}\r\n").as_bytes());
        let answer = sent.and_then(|()| self.read_line()).map_err(|source| self.failed(source))?;
        if !answer.starts_with("OK ") {
            return Err(BusError::Unwelcome { endpoint: self.endpoint.clone(), user, answer });
        }
        self.stream.write_all(b"BEGIN\r\n").map_err(|source| self.failed(source))
    }

    /// The bus sends nothing beyond the line before it is told to begin.
    fn read_line(&mut self) -> io::Result<String> {
        let (mut line, mut buffer) = (Vec::new(), [0; 512]);
        while !line.ends_with(b"\r\n") && line.len() < buffer.len() {
            let count = self.stream.read_some(&mut buffer)?;
            line.extend_from_slice(buffer.get(..count).unwrap_or_default());
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Every connection begins with this.
    fn greet(&mut self) -> Result<(), BusError> {
        let hello = Call {
            destination: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            member: "Hello",
            arguments: &[],
            start: Start::Refused,
        };
        match self.ask(&hello)? {
            Answer::Value(_) => Ok(()),
            Answer::Error { name, text } => {
                let (endpoint, user) = (self.endpoint.clone(), nix::unistd::geteuid().as_raw());
                Err(BusError::Unwelcome { endpoint, user, answer: format!("{name}: {text}") })
            }
        }
    }

    /// Calls a method, and waits for its answer.
    ///
    /// # Errors
    /// When there is none; that the method fails is an answer.
    pub fn call(&mut self, call: &Call<'_>) -> Result<Answer, BusError> {
        self.stream.limit(self.limit);
        self.ask(call)
    }

    /// Calls a method for which nobody waits. It comes after all calls of this connection that were made before.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn send(&mut self, call: &Call<'_>) -> Result<(), BusError> {
        self.stream.limit(self.limit);
        self.write(call, Reply::Unwanted).map(|_| ())
    }

    fn ask(&mut self, call: &Call<'_>) -> Result<Answer, BusError> {
        let serial = self.write(call, Reply::Expected)?;
        loop {
            let message = self.read()?;
            if let Some(answer) = message.answer_to(serial).map_err(|source| self.malformed(source))? {
                return Ok(answer);
            }
        }
    }

    fn write(&mut self, call: &Call<'_>, reply: Reply) -> Result<u32, BusError> {
        let serial = self.serial;
        self.serial = serial.checked_add(1).unwrap_or(NonZeroU32::MIN);
        let message = call.encode(serial.get(), reply).map_err(|source| self.malformed(source))?;
        self.stream.write_all(&message).map_err(|source| self.failed(source))?;
        Ok(serial.get())
    }

    fn read(&mut self) -> Result<Message, BusError> {
        let mut start = [0; FIXED];
        self.stream.read_exact(&mut start).map_err(|source| self.failed(source))?;
        let incoming = Incoming::parse(start).map_err(|source| self.malformed(source))?;
        let mut rest = vec![0; incoming.rest()];
        self.stream.read_exact(&mut rest).map_err(|source| self.failed(source))?;
        incoming.finish(&rest).map_err(|source| self.malformed(source))
    }

    fn failed(&self, source: io::Error) -> BusError {
        failed(&self.endpoint, self.limit, source)
    }

    fn malformed(&self, source: MessageError) -> BusError {
        BusError::Message { endpoint: self.endpoint.clone(), source }
    }
}

/// A socket reports that its time is up as if it had nothing to say.
fn failed(endpoint: &Endpoint, limit: Duration, source: io::Error) -> BusError {
    let endpoint = endpoint.clone();
    if [ErrorKind::TimedOut, ErrorKind::WouldBlock].contains(&source.kind()) {
        BusError::Silent { endpoint, limit }
    } else {
        BusError::Broken { endpoint, source }
    }
}
