//! Messages of D-Bus as bytes: D-Bus specification, "Message Format".

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use zbus::wire::serialized::{Context, Data};
use zbus::wire::{Endian, LE, Signature, to_bytes};
use zbus::{ObjectPath, Type, Variant};

/// The header: byte order, type, flags, version of the protocol, length of the body, serial number, fields.
type Header<F> = (u8, u8, u8, u8, u32, u32, Vec<(u8, F)>);

/// The bytes of the header up to the fields, with the fields' length.
pub(super) const FIXED: usize = 16;

/// No answer of a bus or of firewalld comes near; the protocol allows 128 MiB.
const MAX_LEN: usize = 1 << 20;

const PROTOCOL: u8 = 1;

const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;

const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

const NO_REPLY_EXPECTED: u8 = 1;
const NO_AUTO_START: u8 = 2;

/// A message that cannot be written or read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MessageError {
    /// A part of it breaks the format.
    #[error("a message of D-Bus is malformed")]
    Format(#[from] zbus::Error),
    /// Its first bytes do.
    #[error("a message of D-Bus begins with {0:?}")]
    Start([u8; FIXED]),
    /// It is longer than any message that is asked for.
    #[error("a message of D-Bus has {0} bytes")]
    TooLong(usize),
}

/// What a call means to a service that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The bus may start it.
    Allowed,
    /// The call fails.
    Refused,
}

/// A method that is called with texts.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The name of the service on the bus.
    pub destination: &'static str,
    /// The object.
    pub path: &'static str,
    /// The interface of the object.
    pub interface: &'static str,
    /// The method.
    pub member: &'static str,
    /// The arguments.
    pub arguments: &'a [&'a str],
    /// Whether the service may be started for it.
    pub start: Start,
}

/// Whether the caller waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Expected,
    Unwanted,
}

impl Call<'_> {
    /// The message of the call.
    pub(super) fn encode(&self, serial: u32, reply: Reply) -> Result<Vec<u8>, MessageError> {
        let body = texts(self.arguments)?;
        let text = |text: &'static str| Field::Value(text.into());
        let mut fields = vec![
            (PATH, Field::Value(ObjectPath::try_from(self.path)?.into())),
            (INTERFACE, text(self.interface)),
            (MEMBER, text(self.member)),
            (DESTINATION, text(self.destination)),
        ];
        if !self.arguments.is_empty() {
            fields.push((SIGNATURE, Field::Signature("s".repeat(self.arguments.len()))));
        }
        let header: Header<Field> = (b'l', METHOD_CALL, self.flags(reply), PROTOCOL, length(&body)?, serial, fields);
        let mut message = to_bytes(Context::new(LE, 0), &header)?.bytes().to_vec();
        message.resize(padded(message.len()), 0);
        message.extend(body);
        Ok(message)
    }

    fn flags(&self, reply: Reply) -> u8 {
        let unanswered = match reply {
            Reply::Expected => 0,
            Reply::Unwanted => NO_REPLY_EXPECTED,
        };
        unanswered
            | match self.start {
                Start::Allowed => 0,
                Start::Refused => NO_AUTO_START,
            }
    }
}

/// A field of a header that is written.
#[derive(Type)]
#[zbus(signature = "v")]
enum Field {
    Value(Variant<'static>),
    /// The types of the arguments, one after the other: a [`Signature`] of several is one of a structure.
    Signature(String),
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Signature(types) => {
                let mut variant = serializer.serialize_struct("Variant", 2)?;
                variant.serialize_field("signature", &Signature::Signature)?;
                variant.serialize_field("value", types)?;
                variant.end()
            }
        }
    }
}

fn texts(arguments: &[&str]) -> Result<Vec<u8>, MessageError> {
    let mut body = Vec::new();
    for argument in arguments {
        body.extend_from_slice(to_bytes(Context::new(LE, body.len()), argument)?.bytes());
    }
    Ok(body)
}

fn length(body: &[u8]) -> Result<u32, MessageError> {
    u32::try_from(body.len()).map_err(|_| MessageError::TooLong(body.len()))
}

/// The header and the body each begin at a multiple of eight.
const fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

/// The start of a message that arrives.
pub(super) struct Incoming {
    start: [u8; FIXED],
    endian: Endian,
    fields: usize,
    body: usize,
}

impl Incoming {
    pub(super) fn parse(start: [u8; FIXED]) -> Result<Self, MessageError> {
        let [order, _, _, protocol, b0, b1, b2, b3, _, _, _, _, f0, f1, f2, f3] = start;
        let (endian, read): (Endian, fn([u8; 4]) -> u32) = match order {
            b'l' => (Endian::Little, u32::from_le_bytes),
            b'B' => (Endian::Big, u32::from_be_bytes),
            _ => return Err(MessageError::Start(start)),
        };
        if protocol != PROTOCOL {
            return Err(MessageError::Start(start));
        }
        let wide = |bytes| usize::try_from(read(bytes)).unwrap_or(usize::MAX);
        let incoming = Self { start, endian, fields: wide([f0, f1, f2, f3]), body: wide([b0, b1, b2, b3]) };
        match incoming.fields.saturating_add(incoming.body) {
            len if len > MAX_LEN => Err(MessageError::TooLong(len)),
            _ => Ok(incoming),
        }
    }

    /// How many bytes follow.
    pub(super) const fn rest(&self) -> usize {
        padded(self.fields) + self.body
    }

    /// Reads the message when the rest of it is there as well.
    pub(super) fn finish(self, rest: &[u8]) -> Result<Message, MessageError> {
        let (fields, body) = rest.split_at_checked(padded(self.fields)).ok_or(MessageError::Start(self.start))?;
        let header = Data::new([&self.start, fields].concat(), Context::new(self.endian, 0));
        let ((_, kind, _, _, _, _, fields), _): (Header<Variant<'_>>, usize) = header.deserialize()?;
        let mut message = Message {
            kind,
            reply_to: None,
            error: String::new(),
            signature: String::new(),
            body: Data::new(body.to_vec(), Context::new(self.endian, 0)),
        };
        fields.iter().for_each(|(code, value)| message.take(*code, value));
        Ok(message)
    }
}

/// A message that has arrived.
#[derive(Debug)]
pub(super) struct Message {
    kind: u8,
    reply_to: Option<u32>,
    error: String,
    signature: String,
    body: Data<'static, 'static>,
}

/// What a method answers.
#[derive(Debug)]
pub enum Answer {
    /// Its result.
    Value(Value),
    /// Its failure.
    Error {
        /// The name of the kind of failure.
        name: String,
        /// What is said about it.
        text: String,
    },
}

/// The result of a method.
#[derive(Debug)]
pub struct Value {
    signature: String,
    body: Data<'static, 'static>,
}

impl Message {
    fn take(&mut self, code: u8, value: &Variant<'_>) {
        match code {
            REPLY_SERIAL => self.reply_to = value.downcast_ref().ok(),
            ERROR_NAME => self.error = value.downcast_ref::<&str>().unwrap_or_default().to_owned(),
            SIGNATURE => {
                self.signature = value.downcast_ref::<&Signature>().map(Signature::to_string).unwrap_or_default();
            }
            _ => {}
        }
    }

    /// The answer to the call of this number, if it is one.
    pub(super) fn answer_to(self, serial: u32) -> Result<Option<Answer>, MessageError> {
        let Self { kind, reply_to, error: name, signature, body } = self;
        let value = Value { signature, body };
        match kind {
            METHOD_RETURN if reply_to == Some(serial) => Ok(Some(Answer::Value(value))),
            ERROR if reply_to == Some(serial) => Ok(Some(Answer::Error { name, text: value.first_text()? })),
            _ => Ok(None),
        }
    }
}

impl Value {
    /// The boolean that the result is, if it is one.
    ///
    /// # Errors
    /// When its bytes are none.
    pub fn boolean(&self) -> Result<Option<bool>, MessageError> {
        if self.signature != "b" {
            return Ok(None);
        }
        Ok(Some(self.body.deserialize::<bool>()?.0))
    }

    /// The text that comes first; empty if none does.
    fn first_text(&self) -> Result<String, MessageError> {
        if !self.signature.trim_start_matches('(').starts_with('s') {
            return Ok(String::new());
        }
        Ok(self.body.deserialize::<&str>()?.0.to_owned())
    }
}
