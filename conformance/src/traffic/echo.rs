//! Servers that return the address of their peer.
//!
//! The answer is the text of the peer's socket address, and the name of the server's namespace. A server's socket belongs to its namespace, its thread does
//! not.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Transport;
use crate::namespace::Namespace;

/// How often a server checks whether it should stop.
const TICK: Duration = Duration::from_millis(5);

/// How long a port may be held by a child that is about to execute its program.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs until dropped; it keeps its namespace alive so long.
#[derive(Debug)]
pub struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts a server inside of a namespace.
    ///
    /// # Panics
    /// When the address cannot be bound.
    pub fn start(namespace: &Namespace, transport: Transport, address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let name = namespace.name().to_owned();
        let bound = |error: io::Error| -> ! { panic!("bind {transport} {address}: {error}") };
        let thread = match transport {
            Transport::Tcp => {
                let listener =
                    patiently(|| namespace.run(|| TcpListener::bind(address))).unwrap_or_else(|error| bound(error));
                listener.set_nonblocking(true).expect("make a listener non-blocking");
                thread::spawn(move || serve_tcp(&listener, &name, &stopped))
            }
            Transport::Udp => {
                let socket =
                    patiently(|| namespace.run(|| UdpSocket::bind(address))).unwrap_or_else(|error| bound(error));
                socket.set_read_timeout(Some(TICK)).expect("set a read timeout");
                thread::spawn(move || serve_udp(&socket, &name, &stopped))
            }
        };
        Self { stop, thread: Some(thread) }
    }

    /// Starts a server for each transport on all addresses of both families.
    pub fn everywhere(namespace: &Namespace, port: u16) -> [Self; 2] {
        let any = SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), port);
        Transport::ALL.map(|transport| Self::start(namespace, transport, any))
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if matches!(ended, Some(Err(_))) && !thread::panicking() {
            panic!("an echo server panicked");
        }
    }
}

/// Binds a port that an earlier server may have used: a child that another thread of the test has forked keeps a copy
/// of its socket until it executes its program.
fn patiently<T>(bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => thread::sleep(TICK),
            result => return result,
        }
    }
}

fn serve_tcp(listener: &TcpListener, name: &str, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // A client that has gone away is not the server's business.
            Ok((mut stream, peer)) => drop(stream.write_all(text(peer, name).as_bytes())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(TICK),
            Err(error) => panic!("accept: {error}"),
        }
    }
}

/// Errors that are ignored. A wait with a limit is interrupted when the process, or the machine, was stopped and
/// continues (signal(7)).
const UNIMPORTANT: [ErrorKind; 3] = [ErrorKind::WouldBlock, ErrorKind::ConnectionRefused, ErrorKind::Interrupted];

fn serve_udp(socket: &UdpSocket, name: &str, stop: &AtomicBool) {
    let mut buffer = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut buffer) {
            // The answer may be refused by the peer's kernel: the client notices.
            Ok((_, peer)) => drop(socket.send_to(text(peer, name).as_bytes(), peer)),
            Err(error) if UNIMPORTANT.contains(&error.kind()) => {}
            Err(error) => panic!("receive: {error}"),
        }
    }
}

/// Writes an IPv4 peer of a dual-stack socket as IPv4.
fn text(peer: SocketAddr, name: &str) -> String {
    format!("{} {name}", SocketAddr::new(peer.ip().to_canonical(), peer.port()))
}
