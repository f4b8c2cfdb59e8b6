//! A host with an uplink, containers that serve, and clients outside that keep their port.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use cni_conformance::traffic::{Echo, Transport};
use cni_conformance::{
    Attachment, Container, Flavour, Namespace, Nomad, Outside, PortMapping, Runtime, Sandbox, Spelling,
};

/// Where containers serve.
const SERVICE: u16 = 53;

/// The host port that leads to them.
pub const PORT: u16 = 5300;

/// The host.
pub struct ConntrackHost {
    pub outside: Outside,
    pub sandbox: Sandbox,
    nomad: Nomad,
}

/// A container that serves.
pub struct MappedContainer {
    // The server ends before the container does.
    _server: Echo,
    pub attachment: Attachment,
    container: Container,
}

impl ConntrackHost {
    pub fn new(flavour: Flavour) -> Self {
        Self::of(Nomad::default().dual_stack(), flavour)
    }

    /// A host on which a container without ports has made what all share.
    pub fn in_use(flavour: Flavour) -> Self {
        let machine = Self::new(flavour);
        machine.add("first", &[]);
        machine
    }

    pub fn of(nomad: Nomad, flavour: Flavour) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        let outside = sandbox.outside();
        nomad.ensure_forwarding_rules(&sandbox);
        Self { outside, sandbox, nomad }
    }

    pub fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.nomad.conflist())
    }

    /// Describes a container with these ports, and lets it serve.
    pub fn attached(&self, name: &str, ports: &[PortMapping]) -> MappedContainer {
        let container = self.sandbox.container(name);
        let attachment = Attachment::new(name, &container).ports(ports, Spelling::Go);
        MappedContainer { _server: serve(&container, SERVICE), attachment, container }
    }

    /// Attaches a container with these ports, which serves.
    pub fn add(&self, name: &str, ports: &[PortMapping]) -> MappedContainer {
        let mut attached = self.attached(name, ports);
        self.runtime().add(&mut attached.attachment).expect_success();
        attached
    }

    pub fn del(&self, attachment: &Attachment) {
        self.runtime().del(attachment).expect_success();
    }

    /// Senders of one port of the host, by its two addresses on the uplink.
    pub fn clients(&self, port: u16) -> UdpSenders {
        self.clients_of(&[Outside::HOST_V4.into(), Outside::HOST_V6.into()].map(|host| SocketAddr::new(host, port)))
    }

    pub fn clients_of(&self, servers: &[SocketAddr]) -> UdpSenders {
        UdpSenders(servers.iter().map(|server| UdpSender::new(&self.outside, *server)).collect())
    }

    /// Serves UDP at a port of the host.
    pub fn serve(&self, port: u16) -> Echo {
        serve(self.sandbox.host(), port)
    }
}

impl MappedContainer {
    /// Stops what serves, and lets the namespace go.
    pub fn die(self) {
        let Self { _server: server, container, .. } = self;
        drop(server);
        container.remove();
    }
}

/// Serves UDP on all addresses of both families.
fn serve(namespace: &Namespace, port: u16) -> Echo {
    Echo::start(namespace, Transport::Udp, SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), port))
}

pub fn udp(port: u16) -> PortMapping {
    PortMapping::new(port, SERVICE, "udp")
}

/// Sockets outside.
pub struct UdpSenders(Vec<UdpSender>);

impl UdpSenders {
    #[track_caller]
    pub fn are_answered_by(&self, whom: &str) {
        for client in &self.0 {
            client.is_answered_by(whom);
        }
    }

    #[track_caller]
    pub fn are_not_answered(&self) {
        for client in &self.0 {
            client.is_not_answered();
        }
    }
}

/// One of them, and where it sends to.
struct UdpSender {
    socket: UdpSocket,
    server: SocketAddr,
}

impl UdpSender {
    fn new(from: &Namespace, server: SocketAddr) -> Self {
        let own: IpAddr = if server.is_ipv4() { Outside::V4.into() } else { Outside::V6.into() };
        let socket = from.run(|| UdpSocket::bind((own, 0))).expect("bound");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        Self { socket, server }
    }

    /// Sends until an answer comes, which takes a moment where a neighbour has to be found first.
    #[track_caller]
    fn is_answered_by(&self, whom: &str) {
        assert!((0..30).any(|_| self.try_once()), "{} must be answered by {whom}", self.server);
        // An answer to an earlier try must not count for a later one.
        while self.socket.recv(&mut [0; 64]).is_ok() {}
    }

    /// Sends often enough for an answer.
    #[track_caller]
    fn is_not_answered(&self) {
        assert!(!(0..4).any(|_| self.try_once()), "{} must not be answered", self.server);
    }

    /// The host may say that nobody listens there; the next try shows whether that lasts.
    fn try_once(&self) -> bool {
        self.socket.send_to(b"?", self.server).is_ok() && self.socket.recv(&mut [0; 64]).is_ok()
    }
}
