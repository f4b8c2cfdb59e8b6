//! A Nomad client with one attached allocation, and what a row of a table does to it.

use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::nomad::{GATEWAY_V4, GATEWAY_V6, SUBNET_V4, SUBNET_V6};
use cni_conformance::state::assert_same;
use cni_conformance::{
    Attachment, Container, Flavour, Network, Nomad, PortMapping, Runtime, Sandbox, Spelling, State, Subnets, nomad,
};

pub const ALLOC: &str = "8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10";

/// The names that the reference derives from the list's name and the allocation's ID.
pub const MASQUERADE_CHAIN: &str = "CNI-f795935c5b000b7816d4ca95";
pub const PORT_CHAIN: &str = "CNI-DN-f795935c5b000b7816d4c";

/// The code of a CHECK that found something missing.
pub const CHECK_FAILED: u64 = 100;

/// The words of one family that differ from the other's.
#[derive(Debug, Clone, Copy)]
pub struct FamilyWords {
    pub name: &'static str,
    program: &'static str,
    flag: &'static str,
    ip: &'static str,
    gateway: &'static str,
    subnet: &'static str,
    default: &'static str,
}

pub const V4: FamilyWords = FamilyWords {
    name: "v4",
    program: "iptables",
    flag: "-4",
    ip: "172.26.64.2",
    gateway: GATEWAY_V4,
    subnet: SUBNET_V4,
    default: "0.0.0.0/0",
};

pub const V6: FamilyWords = FamilyWords {
    name: "v6",
    program: "ip6tables",
    flag: "-6",
    ip: "fd00:a110:c8::2",
    gateway: GATEWAY_V6,
    subnet: SUBNET_V6,
    default: "::/0",
};

/// What happens to the machine behind the plugins' back; words in braces are filled in.
#[derive(Debug, Clone, Copy)]
pub enum Disturbance {
    /// A command on the host.
    Host(&'static str),
    /// A command in the container.
    Inside(&'static str),
    /// The first rule of this table and chain whose `-S` line has these words goes.
    Rule(&'static str, &'static str, &'static str),
}

/// The machine.
pub struct CheckHost {
    pub sandbox: Sandbox,
    pub container: Container,
    pub attachment: Attachment,
    nomad: Nomad,
}

impl CheckHost {
    /// Attaches the allocation, with one of Nomad's ports if wanted.
    pub fn new(nomad: Nomad, flavour: Flavour, ports: bool) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        nomad.ensure_forwarding_rules(&sandbox);
        let container = sandbox.container(ALLOC);
        let mappings = if ports { PortMapping::twins(8080, 80) } else { Vec::new() };
        let mut attachment =
            Attachment::new(ALLOC, &container).ports(&mappings, Spelling::Go).args(&nomad::args(ALLOC, "web", &[]));
        Runtime::new(&sandbox, nomad.conflist()).add(&mut attachment).expect_success();
        Self { sandbox, container, attachment, nomad }
    }

    /// Attaches it to a network of both families, with ports.
    pub fn dual_stack(flavour: Flavour) -> Self {
        Self::new(Nomad::default().dual_stack(), flavour, true)
    }

    pub fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.nomad.conflist())
    }

    pub fn state(&self) -> State {
        State::capture(&self.sandbox, &[&self.container])
    }

    /// Takes the container's namespace away, and waits for the kernel to take the links with it.
    pub fn lose_container(&self) {
        let port = self.fill("{port}", &V4);
        self.container.remove();
        let started = Instant::now();
        while Network::observe(self.sandbox.host()).link(&port).is_some() {
            assert!(started.elapsed() < Duration::from_secs(60), "{port} outlives its namespace");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs CHECK, which must pass and change nothing.
    #[track_caller]
    pub fn passes(&self) {
        let before = self.state();
        self.runtime().check(&self.attachment).expect_success();
        assert_same(&before, &self.state());
    }

    /// Runs CHECK, in which this plugin must fail with all these words, and change nothing.
    #[track_caller]
    pub fn fails(&self, plugin: &str, says: &[String]) {
        let before = self.state();
        let chain = self.runtime().check(&self.attachment);
        for words in says {
            chain.expect_error(plugin, CHECK_FAILED, words);
        }
        assert_same(&before, &self.state());
    }

    /// Does something to the machine.
    #[track_caller]
    pub fn act(&self, act: Disturbance, family: &FamilyWords) {
        match act {
            Disturbance::Host(line) => drop(self.sandbox.sh(&self.fill(line, family))),
            Disturbance::Inside(line) => drop(self.container.sh(&self.fill(line, family))),
            Disturbance::Rule(table, chain, words) => {
                self.delete_rule(family.program, table, chain, &self.fill(words, family));
            }
        }
    }

    /// Puts this machine's names in the place of those in braces.
    pub fn fill(&self, text: &str, family: &FamilyWords) -> String {
        let result = self.attachment.result.as_ref().expect("the allocation is attached");
        let port = result["interfaces"][1]["name"].as_str().expect("a bridge's port has a name");
        let (_, prefix) = family.subnet.split_once('/').expect("a subnet has a prefix length");
        let names = [
            ("{program}", family.program),
            ("{flag}", family.flag),
            ("{ip}", family.ip),
            ("{gateway}", family.gateway),
            ("{subnet}", family.subnet),
            ("{prefix}", prefix),
            ("{default}", family.default),
            ("{port}", port),
            ("{alloc}", ALLOC),
            ("{masquerade}", MASQUERADE_CHAIN),
            ("{ports}", PORT_CHAIN),
        ];
        names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// By number, since no shell is there to quote a comment.
    #[track_caller]
    fn delete_rule(&self, program: &str, table: &str, chain: &str, words: &str) {
        let chain = self.fill(chain, &V4);
        let rules = self.sandbox.sh(&format!("{program} -t {table} -S {chain}"));
        let mut appended = rules.lines().filter(|line| line.starts_with("-A "));
        let position = appended.position(|line| line.contains(words));
        let number = 1 + position.unwrap_or_else(|| panic!("no rule with {words:?} in {chain}:\n{rules}"));
        self.sandbox.sh(&format!("{program} -t {table} -D {chain} {number}"));
    }
}

/// All that `ADD` comes in: versions that have CHECK, families, with and without ports.
pub fn networks() -> Vec<(Nomad, bool)> {
    let mut networks = Vec::new();
    for version in ["0.4.0", "1.0.0", "1.1.0"] {
        for ports in [false, true] {
            networks.push((Nomad::version(version), ports));
            networks.push((Nomad::version(version).dual_stack(), ports));
        }
    }
    networks
}

/// Names a network in a message.
pub fn name_of((nomad, ports): &(Nomad, bool)) -> String {
    let families = if nomad.subnets == Subnets::V4 { "v4" } else { "v4 and v6" };
    format!("{} {families} {}", nomad.cni_version, if *ports { "with ports" } else { "without ports" })
}
