//! The process of a container: it answers connections to port 80 with the container's id.
//!
//! It is this program under another argument, and ends when its standard input does, that is, with the soak test at the latest.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio, exit};
use std::thread;

use cni_conformance::Namespace;

/// The argument of the program.
pub const ARGUMENT: &str = "--inhabit";

/// How often the kernel repeats what a connection without a process has still to send (`ip-sysctl`). Each such connection keeps its
/// namespace alive, by default for up to a minute after the container's interface is gone.
const REPEATS: (&str, &str) = ("/proc/sys/net/ipv4/tcp_orphan_retries", "1");

/// The port that it listens at.
pub const PORT: u16 = 80;

/// A running process inside a container.
#[derive(Debug)]
pub struct Inhabitant(Child);

impl Inhabitant {
    /// Starts it in the namespace of the calling thread, and waits until it listens.
    pub fn start(namespace: &Namespace, id: &str) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.args([ARGUMENT, id]).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child =
            namespace.run(|| command.spawn().unwrap_or_else(|error| panic!("start the process of {id}: {error}")));
        let mut line = String::new();
        let output = child.stdout.take().expect("stdout is piped");
        BufReader::new(output).read_line(&mut line).expect("read what a container's process says");
        assert_eq!(line, "up\n", "the process of {id} does not listen");
        Self(child)
    }

    /// The path of its namespace, which needs no name.
    pub fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }
}

impl Drop for Inhabitant {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Is the process.
pub fn live(id: &str) -> ! {
    let (parameter, value) = REPEATS;
    fs::write(parameter, value).unwrap_or_else(|error| panic!("{id} sets {parameter}: {error}"));
    let listener = TcpListener::bind(("::", PORT)).unwrap_or_else(|error| panic!("{id} listens: {error}"));
    stdout().write_all(b"up\n").expect("say that it listens");
    stdout().flush().expect("say that it listens");
    thread::spawn(|| {
        // Nothing is written, so this waits for the end.
        drop(stdin().read_to_end(&mut Vec::new()));
        exit(0);
    });
    loop {
        // Clients may be gone.
        drop(listener.accept().and_then(|(mut client, _)| client.write_all(id.as_bytes())));
    }
}
