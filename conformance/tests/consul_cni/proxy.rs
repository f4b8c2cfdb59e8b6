//! Servers that print the present and the original destination of a connection, which a proxy asks the kernel for.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cni_conformance::Namespace;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::OriginalDst;

/// How often a server looks whether it should stop.
const TICK: Duration = Duration::from_millis(5);

/// Servers of a namespace that run until they are dropped.
pub struct Servers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Servers {
    pub fn new() -> Self {
        Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() }
    }

    /// Starts a TCP server on all addresses of IPv4. It answers `<the address it was reached at> for <the address that
    /// the client wanted>`, as far as the kernel knows both, or the first alone.
    pub fn tcp(mut self, namespace: &Namespace, port: u16) -> Self {
        let bind =
            || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap_or_else(|error| panic!("bind {port}: {error}"));
        let listener = namespace.run(bind);
        listener.set_nonblocking(true).expect("make a listener non-blocking");
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A client that has gone away is not the server's business.
                    Ok((mut stream, _)) => drop(stream.write_all(places(&stream).as_bytes())),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(TICK),
                    Err(error) => panic!("accept: {error}"),
                }
            }
        }));
        self
    }

    /// Starts a UDP server on one address, which it answers.
    pub fn udp(mut self, namespace: &Namespace, address: SocketAddr) -> Self {
        let socket =
            namespace.run(|| UdpSocket::bind(address).unwrap_or_else(|error| panic!("bind {address}: {error}")));
        socket.set_read_timeout(Some(TICK)).expect("set a time limit");
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || {
            let mut buffer = [0; 64];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((_, peer)) = socket.recv_from(&mut buffer) {
                    socket.send_to(address.to_string().as_bytes(), peer).expect("answer");
                }
            }
        }));
        self
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = self.threads.drain(..).map(JoinHandle::join).filter(Result::is_err).count();
        assert!(panicked == 0 || thread::panicking(), "{panicked} servers panicked");
    }
}

fn places(stream: &TcpStream) -> String {
    let here = stream.local_addr().expect("a connection has an address");
    match getsockopt(stream, OriginalDst) {
        Ok(wanted) => {
            let (ip, port) = (Ipv4Addr::from(u32::from_be(wanted.sin_addr.s_addr)), u16::from_be(wanted.sin_port));
            let wanted = SocketAddr::from((ip, port));
            if wanted == here { here.to_string() } else { format!("{here} for {wanted}") }
        }
        Err(_) => here.to_string(),
    }
}

/// What a user's client receives from a server, by bash: the kernel asks for the user of the socket. Nothing within two
/// seconds, or a refusal, is `nobody`.
pub fn heard(from: &Namespace, user: u32, transport: &str, to: &str) -> String {
    let (ip, port) = to.rsplit_once(':').expect("an address with a port");
    let read = if transport == "udp" { "echo ? >&3; dd bs=64 count=1 status=none <&3" } else { "cat <&3" };
    let script = format!("exec 3<>/dev/{transport}/{ip}/{port} && {{ {read}; }}");
    let user = user.to_string();
    let client =
        ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", "timeout", "2", "bash", "-c", &script];
    let finished = from.exec(&client);
    if finished.stdout.is_empty() { "nobody".to_owned() } else { finished.stdout }
}
