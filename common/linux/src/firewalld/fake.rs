//! A bus for tests: a socket, and a thread that answers according to a script.

use std::future::poll_fn;
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::thread::{self, JoinHandle};

use tempfile::TempDir;
use zbus::connection::Builder;
use zbus::export::futures_core::Stream;
use zbus::message::Type;
use zbus::{Connection, Guid, Message};

/// The first call of each connection.
const GREETING: &str = "0 org.freedesktop.DBus.Hello()";

/// The bus's reply to a call.
#[derive(Clone, Copy, Debug)]
pub enum FakeReply {
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
    /// Ends the connection.
    HangUp,
}

/// A bus that takes one connection, and another one after each that it has ended, as long as its script has more.
pub struct FakeBus {
    pub address: String,
    heard: JoinHandle<Vec<String>>,
    _directory: TempDir,
}

impl FakeBus {
    /// A bus that lets the client in, and then does this with its calls.
    pub fn start(script: &[FakeReply]) -> Self {
        let script = script.to_vec();
        Self::with(move |listener| zbus::block_on(play(listener, script)))
    }

    /// A bus that does something else.
    pub fn with(play: impl FnOnce(UnixListener) -> Vec<String> + Send + 'static) -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("bus");
        let listener = UnixListener::bind(&path).expect("listen");
        let heard = thread::spawn(move || play(listener));
        Self { address: format!("unix:path={}", path.display()), heard, _directory: directory }
    }

    /// The calls, except the greeting, after the client has disconnected.
    pub fn heard(self) -> Vec<String> {
        let mut heard = self.heard.join().expect("the bus ends in order");
        assert_eq!(heard.first().map(String::as_str), Some(GREETING));
        heard.retain(|call| call != GREETING);
        heard
    }
}

async fn play(listener: UnixListener, script: Vec<FakeReply>) -> Vec<String> {
    let (mut heard, mut script) = (Vec::new(), script.into_iter().peekable());
    loop {
        let (client, _) = listener.accept().expect("a client");
        let builder = Builder::unix_stream(client).server(Guid::generate()).p2p();
        let mut calls = builder.build_message_stream().await.expect("the client is let in");
        let (bus, mut is_ended) = (Connection::from(&calls), false);
        while !is_ended && let Some(Ok(call)) = poll_fn(|context| Pin::new(&mut calls).poll_next(context)).await {
            if call.message_type() != Type::MethodCall {
                continue;
            }
            heard.push(text(&call));
            let say = if text(&call) == GREETING { Some(FakeReply::Text(":1.7")) } else { script.next() };
            match say {
                Some(FakeReply::HangUp) => is_ended = true,
                Some(say) => answer(&bus, &call, say).await.expect("an answer"),
                None => {}
            }
        }
        if !is_ended || script.peek().is_none() {
            return heard;
        }
    }
}

/// The flags, the method and the arguments, which are texts.
fn text(call: &Message) -> String {
    let (header, body) = (call.header(), call.body());
    let arguments: Vec<String> = match body.signature().to_string().as_str() {
        "" => Vec::new(),
        "s" => vec![body.deserialize().expect("a text")],
        _ => body.deserialize::<(String, String)>().map(|(a, b)| vec![a, b]).expect("two texts"),
    };
    let (flags, interface) = (call.primary_header().flags().bits(), header.interface().expect("an interface"));
    let member = header.member().expect("a method");
    format!("{flags} {interface}.{member}({})", arguments.join(", "))
}

async fn answer(bus: &Connection, call: &Message, say: FakeReply) -> zbus::Result<()> {
    let header = call.header();
    let greeting = header.member().is_some_and(|member| member == "Hello");
    if !greeting {
        bus.emit_signal(None::<&str>, "/x", "a.b", "C", &"a signal that nobody asked for").await?;
    }
    match say {
        FakeReply::Nothing | FakeReply::HangUp => Ok(()),
        FakeReply::Done => bus.reply(&header, &()).await,
        FakeReply::Text(text) => bus.reply(&header, &text).await,
        FakeReply::Bool(yes) => bus.reply(&header, &yes).await,
        FakeReply::Fail(name, "") => bus.reply_error(&header, name, &()).await,
        FakeReply::Fail(name, text) => bus.reply_error(&header, name, &text).await,
    }
}
