//! A Nomad client on a machine with an uplink, whose FORWARD policy is DROP.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_conformance::traffic::{Echo, Transport, ask, ask_within};
use cni_conformance::{
    Attachment, Container, Flavour, Nomad, Outside, PortMapping, Runtime, Sandbox, Skeleton, Spelling, State, Subnets,
};

/// Where containers and the outside serve.
const SERVICE: u16 = 80;

/// How long to wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(400);

/// What becomes of a request before DEL comes with it.
pub type Change = fn(Attachment) -> Attachment;

/// The addresses of the first container.
pub const FIRST: [&str; 2] = ["172.26.64.2", "fd00:a110:c8::2"];

/// `CNI_ARGS` that ask for an address, which the reference's bridge takes only with leave to ignore.
pub fn asking_for(address: &str) -> String {
    format!("IgnoreUnknown=1;IP={address}")
}

/// The machine.
pub struct DelHost {
    pub sandbox: Sandbox,
    pub nomad: Nomad,
    outside: Outside,
    _service: [Echo; 2],
}

/// A container that serves, with one host port if it has one.
pub struct DeletedContainer {
    pub container: Container,
    pub attachment: Attachment,
    host_port: u16,
    servers: Option<[Echo; 2]>,
}

impl DelHost {
    pub fn new(nomad: Nomad, flavour: Flavour) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        let outside = sandbox.outside();
        sandbox.sh("iptables -P FORWARD DROP");
        sandbox.sh("ip6tables -P FORWARD DROP");
        nomad.ensure_forwarding_rules(&sandbox);
        let service = Echo::everywhere(&outside, SERVICE);
        Self { sandbox, nomad, outside, _service: service }
    }

    pub fn dual_stack(flavour: Flavour) -> Self {
        Self::new(Nomad::default().dual_stack(), flavour)
    }

    pub fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.nomad.conflist())
    }

    /// Runs the list's plugins but these.
    pub fn runtime_without(&self, plugins: &[&str]) -> Runtime<'_> {
        let mut list = self.nomad.conflist();
        let all = list["plugins"].as_array_mut().expect("a configuration list has plugins");
        all.retain(|plugin| plugins.iter().all(|left_out| plugin["type"] != *left_out));
        Runtime::new(&self.sandbox, list)
    }

    pub fn host(&self) -> State {
        State::of_host(&self.sandbox)
    }

    pub fn skeleton(&self) -> Skeleton {
        Skeleton::of(&self.nomad)
    }

    /// Returns the programs of the families that the network has.
    pub fn programs(&self) -> &'static [&'static str] {
        match self.nomad.subnets {
            Subnets::V4 => &["iptables"],
            Subnets::V4AndV6 => &["iptables", "ip6tables"],
        }
    }

    /// Attaches a new container that serves.
    pub fn add(&self, name: &str, host_port: u16) -> DeletedContainer {
        self.add_with(name, host_port, "")
    }

    /// Attaches a new container that serves, with these `CNI_ARGS`.
    pub fn add_with(&self, name: &str, host_port: u16, args: &str) -> DeletedContainer {
        let container = self.sandbox.container(name);
        let attachment = self.describe(&container, host_port).args(args);
        let servers = Some(Echo::everywhere(&container, SERVICE));
        let mut attached = DeletedContainer { container, attachment, host_port, servers };
        self.runtime().add(&mut attached.attachment).expect_success();
        attached
    }

    /// Describes an attachment as Nomad does.
    pub fn describe(&self, container: &Container, host_port: u16) -> Attachment {
        Attachment::new(container.name(), container).ports(&PortMapping::twins(host_port, SERVICE), Spelling::Go)
    }

    /// Requires that the container is reached at its host port, reaches the outside, and passes CHECK.
    #[track_caller]
    pub fn serves(&self, attached: &DeletedContainer) {
        self.reaches_out(attached);
        self.is_reached(attached);
        self.runtime().check(&attached.attachment).expect_success();
    }

    /// Requires that the container reaches the outside under the host's address.
    #[track_caller]
    pub fn reaches_out(&self, attached: &DeletedContainer) {
        for (host, outside) in self.addresses() {
            for transport in Transport::ALL {
                let seen =
                    ask(&attached.container, transport, SocketAddr::new(outside, SERVICE)).unwrap_or_else(|error| {
                        panic!("{} to {outside} by {transport}: {error}", attached.container.name())
                    });
                assert_eq!(seen.ip(), host, "source of {} by {transport}", attached.container.name());
            }
        }
    }

    /// Requires that the outside reaches the container at its host port.
    #[track_caller]
    pub fn is_reached(&self, attached: &DeletedContainer) {
        for (host, outside) in self.addresses() {
            for transport in Transport::ALL {
                let server = SocketAddr::new(host, attached.host_port);
                let seen = ask(&self.outside, transport, server)
                    .unwrap_or_else(|error| panic!("{} at {transport} {server}: {error}", attached.container.name()));
                assert_eq!(seen.ip(), outside, "source seen at {transport} {server}");
            }
        }
    }

    /// Requires that nobody answers the outside at this host port.
    #[track_caller]
    pub fn is_silent_at(&self, host_port: u16) {
        for (host, _) in self.addresses() {
            for transport in Transport::ALL {
                let answer = ask_within(&self.outside, transport, SocketAddr::new(host, host_port), SILENCE);
                assert!(answer.is_err(), "{transport} {host}:{host_port} was answered: {answer:?}");
            }
        }
    }

    fn addresses(&self) -> Vec<(IpAddr, IpAddr)> {
        let v4 = (Outside::HOST_V4.into(), Outside::V4.into());
        let v6 = (Outside::HOST_V6.into(), Outside::V6.into());
        match self.nomad.subnets {
            Subnets::V4 => vec![v4],
            Subnets::V4AndV6 => vec![v4, v6],
        }
    }
}

impl DeletedContainer {
    /// Stops what serves, and lets the namespace go, as when a container dies.
    pub fn die(&mut self) {
        self.servers = None;
        self.container.remove();
    }
}
