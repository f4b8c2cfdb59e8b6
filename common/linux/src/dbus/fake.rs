//! A bus for tests: a socket, and a thread that plays the other side by a script.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;
use zbus::wire::serialized::{Context, Data};
use zbus::wire::{Endian, to_bytes};
use zbus::{ObjectPath, Signature, Variant};

type Header<'a> = (u8, u8, u8, u8, u32, u32, Vec<(u8, Variant<'a>)>);

/// What the bus does with a call.
#[derive(Clone, Copy, Debug)]
pub enum Say {
    /// Answers nothing.
    Nothing,
    /// Answers without a value.
    Done,
    /// Answers with a boolean.
    Bool(bool),
    /// Answers with a text.
    Text(&'static str),
    /// Answers with the name and the text of a failure.
    Fail(&'static str, &'static str),
    /// Sends these bytes.
    Bytes(&'static [u8]),
    /// Ends the connection.
    HangUp,
}

/// A bus that takes one connection.
pub struct FakeBus {
    /// Its address.
    pub address: String,
    heard: JoinHandle<Vec<String>>,
    _directory: TempDir,
}

impl FakeBus {
    /// A bus that lets the client in, and then does this with its calls.
    pub fn start(script: &[Say]) -> Self {
        let script = script.to_vec();
        Self::with(move |stream| {
            expect_line(stream);
            stream.write_all(b"OK 0123456789abcdef0123456789abcdef\r\n").expect("welcome");
            assert_eq!(expect_line(stream), "BEGIN");
            let mut heard = Vec::new();
            let mut script = [Say::Text(":1.7")].into_iter().chain(script);
            while let Some(call) = Heard::read(stream) {
                heard.push(call.to_string());
                match script.next() {
                    Some(Say::HangUp) => break,
                    Some(say) => call.answer(stream, say),
                    None => {}
                }
            }
            heard
        })
    }

    /// A bus that does something else with its one connection.
    pub fn with(play: impl FnOnce(&mut UnixStream) -> Vec<String> + Send + 'static) -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("bus");
        let listener = UnixListener::bind(&path).expect("listen");
        let heard = thread::spawn(move || play(&mut listener.accept().expect("client").0));
        Self { address: format!("unix:path={}", path.display()), heard, _directory: directory }
    }

    /// What was called, once the client is gone, but for the greeting.
    pub fn heard(self) -> Vec<String> {
        let mut heard = self.heard.join().expect("the bus ends in order");
        assert_eq!(heard.first().map(String::as_str), Some("2 org.freedesktop.DBus.Hello()"));
        heard.remove(0);
        heard
    }
}

/// Reads a line of the client's, without the byte that comes before all.
pub fn expect_line(stream: &mut UnixStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a line");
        line.extend(byte);
    }
    String::from_utf8_lossy(&line).trim_matches(['\0', '\r', '\n']).to_owned()
}

/// A call that the bus has heard.
struct Heard {
    flags: u8,
    serial: u32,
    method: String,
    arguments: Vec<String>,
}

impl Heard {
    fn read(stream: &mut UnixStream) -> Option<Self> {
        let mut start = [0; 16];
        stream.read_exact(&mut start).ok()?;
        let length = |from: usize| {
            let bytes = start.get(from..from + 4).and_then(|bytes| bytes.try_into().ok()).expect("four bytes");
            usize::try_from(u32::from_le_bytes(bytes)).expect("a length")
        };
        let (body, fields) = (length(4), length(12).next_multiple_of(8));
        let mut rest = vec![0; fields + body];
        stream.read_exact(&mut rest).ok()?;
        let (fields, body) = rest.split_at(fields);
        assert!(!fields.contains(&b'('), "texts, and not a structure of texts: {fields:?}");
        let header = Data::new([&start, fields].concat(), Context::new(Endian::Little, 0));
        let ((_, 1, flags, 1, _, serial, fields), _) = header.deserialize::<Header<'_>>().expect("a header") else {
            panic!("a call of version 1");
        };
        let text = |code| {
            let field = fields.iter().find(|(field, _)| *field == code).expect("a field");
            field.1.downcast_ref::<&str>().expect("a text").to_owned()
        };
        let method = format!("{}.{}", text(2), text(3));
        Some(Self { flags, serial, method, arguments: texts(body) })
    }

    fn answer(&self, stream: &mut UnixStream, say: Say) {
        let (done, failed) = (2, 3);
        let signal = message(1, (4, 0), &[(2, "a.b".into()), (3, "C".into())], None::<&str>);
        stream.write_all(&signal).expect("a signal that nobody asked for");
        let reply = |kind, body: Option<&str>, name: Option<&'static str>| {
            let name = name.map(|name| (4, Variant::from(name)));
            message(9, (kind, self.serial), &name.into_iter().collect::<Vec<_>>(), body)
        };
        let bytes = match say {
            Say::Nothing | Say::HangUp => return,
            Say::Done => reply(done, None, None),
            Say::Text(text) => reply(done, Some(text), None),
            Say::Fail(name, text) => reply(failed, Some(text).filter(|text| !text.is_empty()), Some(name)),
            Say::Bool(yes) => message(9, (done, self.serial), &[], Some(yes)),
            Say::Bytes(bytes) => bytes.to_vec(),
        };
        stream.write_all(&bytes).expect("an answer");
    }
}

impl std::fmt::Display for Heard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}({})", self.flags, self.method, self.arguments.join(", "))
    }
}

fn texts(mut body: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let [a, b, c, d, rest @ ..] = body {
        let length = usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).expect("a length");
        texts.push(String::from_utf8(rest.get(..length).expect("a text").to_vec()).expect("UTF-8"));
        body = rest.get((length + 1).next_multiple_of(4)..).unwrap_or_default();
    }
    texts
}

/// A message in the other byte order, which a bus may use as well.
fn message<T>(serial: u32, (kind, reply_to): (u8, u32), more: &[(u8, Variant<'_>)], body: Option<T>) -> Vec<u8>
where
    T: serde::Serialize + zbus::DynamicType,
{
    let context = Context::new(Endian::Big, 0);
    let signature = body.as_ref().map(zbus::DynamicType::signature);
    let body = body.map(|body| to_bytes(context, &body).expect("a body").bytes().to_vec()).unwrap_or_default();
    let path = (1, Variant::from(ObjectPath::try_from("/x").expect("a path")));
    let reply_to = (5, Variant::from(reply_to.max(1)));
    let mut fields: Vec<(u8, Variant<'_>)> = vec![path, reply_to];
    fields.extend(signature.map(|signature: Signature| (8, Variant::from(signature))));
    fields.extend(more.iter().map(|(code, value)| (*code, value.try_clone().expect("a value"))));
    let length = u32::try_from(body.len()).expect("a length");
    let header: Header<'_> = (b'B', kind, 0, 1, length, serial, fields);
    let mut bytes = to_bytes(context, &header).expect("a header").bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(body);
    bytes
}
