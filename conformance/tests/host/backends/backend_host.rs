//! A host with an uplink, and containers behind it; counts which of them reach which.

use std::cell::Cell;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use cni_conformance::firewalld::FirewalldHost;
use cni_conformance::keys;
use cni_conformance::traffic::{Capture, Echo, Packet, SCTP, Transport, ask, ask_within, send_sctp};
use cni_conformance::{
    Attachment, Container, Namespace, Outside, PortMapping, Runtime, Sandbox, Skeleton, Spelling, State,
};

use serde_json::Value;

use crate::backends::network::{self, BRIDGE, Backend, FamilyTexts, LEASES, Stack};

/// Where every container serves, and what is asked of the outside.
pub const SERVICE: u16 = 80;
/// The port of the container that SCTP's host port leads to.
const SCTP_SERVICE: u16 = 8132;
/// How long to wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(300);
/// How long to wait for a packet that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// The host; containers are attached to it one by one.
pub struct BackendHost {
    pub backend: Backend,
    pub stack: Stack,
    pub outside: Outside,
    answered: Cell<u32>,
    unanswered: Cell<u32>,
    packets: Cell<u16>,
    list: Value,
    machine: FirewalldHost,
}

/// An attached container, and its servers.
pub struct ServingContainer {
    pub attachment: Attachment,
    pub container: Container,
    /// Its first host port.
    pub port: u16,
    servers: Vec<Echo>,
}

impl BackendHost {
    /// Where iptables keeps the rules, nothing is forwarded but what rules let pass, and the administrator lets in
    /// what goes to the bridge. What nftables and firewalld accept would not overrule that.
    pub fn new(backend: Backend, stack: Stack) -> Self {
        let mut machine = FirewalldHost::on(Sandbox::with_flavour(backend.flavour()));
        if backend == Backend::Firewalld {
            machine.start();
        }
        let sandbox = machine.sandbox();
        let outside = sandbox.outside();
        for family in stack.families().iter().filter(|_| backend.of_firewall() == "iptables") {
            let FamilyTexts { program, subnet, .. } = family;
            sandbox.sh(&format!("{program} -P FORWARD DROP"));
            sandbox.sh(&format!("{program} -N CNI-ADMIN"));
            sandbox.sh(&format!("{program} -A CNI-ADMIN -o {BRIDGE} -d {subnet} -j ACCEPT"));
        }
        let zero = || Cell::new(0);
        let (list, packets) = (network::list(backend, stack), Cell::new(0));
        Self { backend, stack, outside, answered: zero(), unanswered: zero(), packets, list, machine }
    }

    /// Gives more keys to a plugin of the network.
    pub fn configure(mut self, plugin: &str, keys: &Value) -> Self {
        let plugins = self.list["plugins"].as_array_mut().expect("plugins");
        let configured = plugins.iter_mut().find(|configured| configured["type"] == plugin).expect("a plugin");
        keys::set(configured, keys);
        self
    }

    pub fn machine(&self) -> &FirewalldHost {
        &self.machine
    }

    pub fn sandbox(&self) -> &Sandbox {
        self.machine.sandbox()
    }

    pub fn families(&self) -> &'static [FamilyTexts] {
        self.stack.families()
    }

    pub fn runtime(&self) -> Runtime<'_> {
        self.runtime_of(self.list.clone())
    }

    /// The same with another network.
    pub fn runtime_of(&self, list: Value) -> Runtime<'_> {
        let (key, value) = self.machine.bus_variable();
        Runtime::new(self.sandbox(), list).env(key, value)
    }

    pub fn list(&self) -> &Value {
        &self.list
    }

    pub fn state(&self) -> State {
        State::of_host(self.sandbox())
    }

    /// Attaches a container that serves, with one host port for TCP, UDP and SCTP.
    pub fn attach(&self, name: &str, port: u16) -> ServingContainer {
        let mut ports = PortMapping::twins(port, SERVICE);
        ports.push(PortMapping::new(port, SCTP_SERVICE, "sctp"));
        self.attach_with(name, &ports)
    }

    /// Attaches a container that serves, with these ports.
    pub fn attach_with(&self, name: &str, ports: &[PortMapping]) -> ServingContainer {
        let mut attached = self.attached(name, ports);
        self.runtime().add(&mut attached.attachment).expect_success();
        attached
    }

    /// Describes a container with these ports, and lets it serve.
    pub fn attached(&self, name: &str, ports: &[PortMapping]) -> ServingContainer {
        let container = self.sandbox().container(name);
        let attachment = Attachment::new(name, &container).ports(ports, Spelling::Go);
        let port = ports.first().expect("a container has a port").host_port;
        let servers = Echo::everywhere(&container, SERVICE).into();
        ServingContainer { attachment, container, port, servers }
    }

    /// Requires that the server saw the client come from `source`, by TCP and by UDP.
    #[track_caller]
    pub fn reaches(&self, from: &Namespace, to: IpAddr, port: u16, source: IpAddr) {
        for transport in Transport::ALL {
            let server = SocketAddr::new(to, port);
            let seen = ask(from, transport, server)
                .unwrap_or_else(|error| panic!("{} to {transport} {server}: {error}", from.name()));
            assert_eq!(seen.ip(), source, "source seen by {transport} {server}, asked from {}", from.name());
            self.answered.set(self.answered.get() + 1);
        }
    }

    /// Requires that no answer comes, by TCP or by UDP.
    #[track_caller]
    pub fn misses(&self, from: &Namespace, to: IpAddr, port: u16) {
        for transport in Transport::ALL {
            let server = SocketAddr::new(to, port);
            let answer = ask_within(from, transport, server, SILENCE);
            assert!(answer.is_err(), "{} to {transport} {server} was answered: {answer:?}", from.name());
            self.unanswered.set(self.unanswered.get() + 1);
        }
    }

    /// Requires that the outside reaches a container's host port in each family.
    #[track_caller]
    pub fn serves(&self, attached: &ServingContainer) {
        self.is_open(attached.port);
    }

    /// Requires that the outside reaches a host port in each family.
    #[track_caller]
    pub fn is_open(&self, port: u16) {
        for FamilyTexts { host, outside, .. } in self.families() {
            self.reaches(&self.outside, *host, port, *outside);
        }
    }

    /// Requires that nobody answers at a host port any more.
    #[track_caller]
    pub fn is_shut(&self, port: u16) {
        for FamilyTexts { host, .. } in self.families() {
            self.misses(&self.outside, *host, port);
            self.misses(self.sandbox().host(), *host, port);
        }
    }

    /// Requires that the first packet of an SCTP connection from outside comes out in the container.
    #[track_caller]
    pub fn passes_sctp(&self, attached: &ServingContainer) {
        for family in self.families() {
            let capture = Capture::start(&attached.container, "eth0");
            let source = SocketAddr::new(family.outside, self.next_port());
            let wanted =
                Packet { source, destination: SocketAddr::new(attached.ip(family), SCTP_SERVICE), protocol: SCTP };
            let started = Instant::now();
            while !capture.so_far().contains(&wanted) {
                assert!(started.elapsed() < PATIENCE, "no {wanted:?}, but {:?}", capture.so_far());
                send_sctp(&self.outside, source, SocketAddr::new(family.host, attached.port));
                std::thread::sleep(Duration::from_millis(20));
            }
            self.answered.set(self.answered.get() + 1);
        }
    }

    /// A client's port that no other packet had, so that the kernel knows nothing of its connection.
    fn next_port(&self) -> u16 {
        self.packets.set(self.packets.get() + 1);
        40_000 + self.packets.get()
    }

    /// Requires that since `before` nothing has come or gone but where the next address is looked for.
    #[track_caller]
    pub fn assert_as_before(&self, before: &State) {
        let shared = Skeleton::on_bridge(BRIDGE).with_leases(LEASES, self.families().len());
        shared.assert_nothing_else(before, || self.state());
    }
}

/// How many requests there were, for a row of a table.
impl fmt::Display for BackendHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests answered, {} not", self.answered.get(), self.unanswered.get())
    }
}

impl ServingContainer {
    /// The address of a family.
    pub fn ip(&self, family: &FamilyTexts) -> IpAddr {
        let result = self.attachment.result.as_ref().expect("the container is attached");
        let ips = result["ips"].as_array().expect("a result has addresses");
        let addresses = ips.iter().filter_map(|ip| ip["address"].as_str()?.split('/').next()?.parse().ok());
        let of_family = |ip: &IpAddr| ip.is_ipv4() == family.gateway.is_ipv4();
        addresses.into_iter().find(of_family).expect("an address of the family")
    }

    /// Ends the servers, which keep a namespace alive.
    pub fn stop_serving(&mut self) {
        self.servers.clear();
    }
}
