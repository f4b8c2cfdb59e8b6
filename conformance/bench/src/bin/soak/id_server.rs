//! The process of a container. It answers connections to port 80 with the container's id.
//!
//! It is this program with another argument, and ends when its standard input is closed, at the latest when the soak test ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::net::TcpListener;
use std::process::{Command, Stdio, exit};
use std::thread;

use cni_conformance::Namespace;
use cni_conformance::child::Running;

/// The argument of the program.
pub const ARGUMENT: &str = "--serve-id";

/// How often the kernel repeats the unsent data of a connection whose process has ended (`ip-sysctl`). Such a connection keeps its
/// namespace alive, by default for up to a minute after the container's interface is deleted.
const ORPHAN_RETRIES: (&str, &str) = ("/proc/sys/net/ipv4/tcp_orphan_retries", "1");

/// The port on which it listens.
pub const PORT: u16 = 80;

/// A running process in a container.
#[derive(Debug)]
pub struct IdServer(Running);

impl IdServer {
    /// Starts it in a namespace, and waits until it listens.
    pub fn start(namespace: &Namespace, id: &str) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.args([ARGUMENT, id]).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child =
            namespace.run(|| command.spawn().unwrap_or_else(|error| panic!("start the process of {id}: {error}")));
        let mut line = String::new();
        let output = child.stdout.take().expect("stdout is piped");
        BufReader::new(output).read_line(&mut line).expect("read the output of a container's process");
        assert_eq!(line, "up\n", "the process of {id} does not listen");
        Self(Running(child))
    }

    /// The path of its namespace in `/proc`.
    pub fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.0.id())
    }
}

/// Runs in the process.
pub fn run(id: &str) -> ! {
    let (parameter, value) = ORPHAN_RETRIES;
    fs::write(parameter, value).unwrap_or_else(|error| panic!("{id} sets {parameter}: {error}"));
    let listener = TcpListener::bind(("::", PORT)).unwrap_or_else(|error| panic!("{id} listens: {error}"));
    stdout().write_all(b"up\n").expect("report that it listens");
    stdout().flush().expect("report that it listens");
    thread::spawn(|| {
        // Nothing is written: this waits until the pipe is closed.
        drop(stdin().read_to_end(&mut Vec::new()));
        exit(0);
    });
    loop {
        // A client may have closed the connection.
        drop(listener.accept().and_then(|(mut client, _)| client.write_all(id.as_bytes())));
    }
}
