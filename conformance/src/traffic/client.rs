//! Clients of the echo servers.
//!
//! A TCP client connects once, and a UDP client sends again until it is answered, since the first datagram may be lost while the
//! kernel looks for the neighbour's address. On a loaded machine a neighbour may answer so late that the host counts as unreachable,
//! so both ask again then.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Transport;
use crate::namespace::Namespace;

/// How long a client waits for an expected answer. A loaded machine may leave a server without a processor for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a UDP client waits before it sends again.
const RESEND: Duration = Duration::from_millis(200);

/// Asks an echo server from inside a namespace and returns the address that the server saw.
///
/// # Errors
/// When no answer comes within a minute.
pub fn ask(from: &Namespace, transport: Transport, server: SocketAddr) -> io::Result<SocketAddr> {
    ask_within(from, transport, server, PATIENCE)
}

/// Does the same with another deadline, for answers that must not come.
pub fn ask_within(
    from: &Namespace,
    transport: Transport,
    server: SocketAddr,
    time: Duration,
) -> io::Result<SocketAddr> {
    Ok(ask_by(from, transport, server, 0, time)?.0)
}

/// Does the same with a port of the client, which only UDP can use again at once, and returns the name of the server's namespace too.
pub fn ask_by(
    from: &Namespace,
    transport: Transport,
    server: SocketAddr,
    port: u16,
    time: Duration,
) -> io::Result<(SocketAddr, String)> {
    let started = Instant::now();
    let once = || match transport {
        Transport::Tcp => ask_tcp(server, time),
        Transport::Udp => ask_udp(server, port, time),
    };
    // A process that another thread starts just now has the client's port for a moment longer.
    let is_passing = |error: &io::Error| [ErrorKind::HostUnreachable, ErrorKind::AddrInUse].contains(&error.kind());
    let answer = from.run(|| {
        loop {
            match once() {
                Err(error) if is_passing(&error) && started.elapsed() < time => sleep(RESEND),
                done => break done,
            }
        }
    })?;
    let parts = answer.split_once(' ').and_then(|(seen, name)| Some((seen.parse().ok()?, name.to_owned())));
    parts.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, format!("{server} answered {answer:?}")))
}

fn ask_tcp(server: SocketAddr, time: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, time)?;
    stream.set_read_timeout(Some(time))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn ask_udp(server: SocketAddr, port: u16, time: Duration) -> io::Result<String> {
    let any = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, port))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(RESEND.min(time)))?;
    let started = Instant::now();
    let mut buffer = [0; 128];
    loop {
        let attempt = socket.send(b"?").and_then(|_| socket.recv(&mut buffer));
        match attempt {
            Ok(length) => return Ok(String::from_utf8_lossy(&buffer[..length]).into_owned()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if started.elapsed() >= time || error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) => {}
        }
    }
}
