//! Two containers with one host port: which of them gets the packets, and what is left of the other.
//!
//! The first matching rule wins, which is the older container's: with the reference even if that container is dead. A
//! server runs in one container at a time, so an answer shows who has the port.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_conformance::keys;
use cni_conformance::traffic::{Echo, Transport, ask, ask_within};
use cni_conformance::{
    Attachment, Chain, Container, Flavour, Nomad, Outcome, Outside, PortMapping, Runtime, Sandbox, Spelling, Verb,
};
use serde_json::{Value, json};

mod dead;
mod living;
mod records;
mod reference;

/// Where every container serves.
const SERVICE: u16 = 80;

/// The port of the host that they share.
const PORT: u16 = 8080;

/// How long to wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(300);

/// Where the plugin writes down whose a port is.
const RECORDS: &str = "/run/cni/.cni-plugins-rs";

/// What keeps the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    IptablesNft,
    IptablesLegacy,
    Nftables,
}

impl Engine {
    const ALL: [Self; 3] = [Self::IptablesNft, Self::IptablesLegacy, Self::Nftables];

    fn backend(self) -> &'static str {
        match self {
            Self::IptablesNft | Self::IptablesLegacy => "iptables",
            Self::Nftables => "nftables",
        }
    }
}

/// A Nomad client with both families, and a host outside.
struct ContestedHost {
    outside: Outside,
    list: Value,
    engine: Engine,
    sandbox: Sandbox,
}

/// A container, and what the runtime knows of it.
struct PublishedContainer {
    container: Container,
    attachment: Attachment,
}

impl ContestedHost {
    fn new(engine: Engine) -> Self {
        let sandbox = match engine {
            Engine::IptablesNft | Engine::Nftables => Sandbox::new(),
            Engine::IptablesLegacy => Sandbox::with_flavour(Flavour::Legacy),
        };
        let nomad = Nomad::default().dual_stack();
        nomad.ensure_forwarding_rules(&sandbox);
        let mut machine = Self { outside: sandbox.outside(), list: nomad.conflist(), engine, sandbox };
        // The first release of the reference that has a choice of backends is later than Debian's.
        if engine == Engine::Nftables {
            machine.set(&json!({"backend": engine.backend()}));
        }
        machine
    }

    /// Gives portmap other keys.
    fn set(&mut self, keys: &Value) {
        let plugins = self.list["plugins"].as_array_mut().expect("plugins");
        let portmap = plugins.iter_mut().find(|plugin| plugin["type"] == "portmap").expect("portmap");
        keys::set(portmap, keys);
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    /// Makes a container, which is not attached yet.
    fn published(&self, name: &str, ports: &[PortMapping]) -> PublishedContainer {
        let container = self.sandbox.container(name);
        let attachment = Attachment::new(name, &container).ports(ports, Spelling::Go);
        PublishedContainer { container, attachment }
    }

    fn add(&self, published: &mut PublishedContainer) -> Chain {
        let chain = self.runtime().add(&mut published.attachment);
        chain.expect_success();
        chain
    }

    /// Makes a container that has the port by TCP and UDP.
    fn run(&self, name: &str) -> PublishedContainer {
        let mut published = self.published(name, &PortMapping::twins(PORT, SERVICE));
        self.add(&mut published);
        published
    }

    /// Adds a container's ports again, as a runtime does that repeats a whole ADD.
    fn add_portmap(&self, published: &PublishedContainer) -> Outcome {
        let mut portmap = Attachment::new(published.container.name(), &published.container)
            .ports(&PortMapping::twins(PORT, SERVICE), Spelling::Go);
        portmap.result.clone_from(&published.attachment.result);
        let runtime = self.runtime();
        let outcome = runtime.invocation(Verb::Add, "portmap", &portmap, portmap.result.as_ref()).run();
        outcome.expect_success();
        outcome
    }

    /// Ends a container without a DEL.
    fn end(&self, published: &PublishedContainer) {
        self.sandbox.end(&published.container);
    }

    fn del(&self, published: &PublishedContainer) {
        self.runtime().del(&published.attachment).expect_success();
    }

    /// The addresses of the host that the outside knows.
    fn hosts() -> [IpAddr; 2] {
        [Outside::HOST_V4.into(), Outside::HOST_V6.into()]
    }

    /// Requires that the port of the host leads to a container, in both families, from the outside and the host.
    #[track_caller]
    fn leads_to(&self, published: &PublishedContainer) {
        let _servers = Echo::everywhere(&published.container, SERVICE);
        for address in Self::hosts() {
            for transport in Transport::ALL {
                let server = SocketAddr::new(address, PORT);
                for from in [&*self.outside, self.sandbox.host()] {
                    let answer = ask(from, transport, server);
                    let name = published.container.name();
                    assert!(answer.is_ok(), "{:?}: {name} at {transport} {server}: {answer:?}", self.engine);
                }
            }
        }
    }

    /// Requires that an address of the host does not lead to a container, by TCP.
    #[track_caller]
    fn misses(&self, published: &PublishedContainer, address: IpAddr) {
        let _servers = Echo::everywhere(&published.container, SERVICE);
        let answer = ask_within(self.sandbox.host(), Transport::Tcp, SocketAddr::new(address, PORT), SILENCE);
        assert!(answer.is_err(), "{:?}: {} answered at {address}", self.engine, published.container.name());
    }

    /// Requires that an address of the host leads to a container, by TCP.
    #[track_caller]
    fn reaches(&self, published: &PublishedContainer, address: IpAddr) {
        let _servers = Echo::everywhere(&published.container, SERVICE);
        let answer = ask(self.sandbox.host(), Transport::Tcp, SocketAddr::new(address, PORT));
        assert!(answer.is_ok(), "{:?}: {} at {address}: {answer:?}", self.engine, published.container.name());
    }

    /// The rules of both packet filters that lead to containers, in order.
    fn entries(&self) -> Vec<String> {
        let lines = match self.engine {
            Engine::Nftables => self.sandbox.sh("nft list ruleset"),
            Engine::IptablesNft | Engine::IptablesLegacy => {
                ["iptables", "ip6tables"].map(|program| self.sandbox.sh(&format!("{program} -t nat -S"))).concat()
            }
        };
        let leads = |line: &&str| line.starts_with("-A CNI-HOSTPORT-DNAT ") || line.contains("jump dnat-");
        lines.lines().map(str::trim).filter(leads).map(str::to_owned).collect()
    }

    /// The rules in which a container is named or addressed, in both packet filters.
    fn traces(&self, name: &str) -> Vec<String> {
        self.entries()
            .into_iter()
            .filter(|line| line.contains(&format!("{name}\\\"")) || line.contains(&format!("\"{name}\"")))
            .collect()
    }

    /// What is written down of ports.
    fn records(&self) -> String {
        self.sandbox.sh("find /run/cni -path */ports/* -type f")
    }
}

fn localhost() -> IpAddr {
    "127.0.0.1".parse().expect("an address")
}
