//! `cni-plugins repair`: the rules that somebody else has flushed come back, and nothing else changes.
//!
//! The real `cnitool` makes the attachments, so the cache is the one that libcni writes. The reference has
//! nothing of the kind: its containers stay without connection until they are created again.

use cni_conformance::{CniTool, Container, Flavour, Invocation, Nomad, Outcome, Sandbox, State, Verb};
use serde_json::{Value, json};

mod at_once;
mod deleted;
mod flushed;
mod many;
mod many_ports;
mod options;
mod single;
mod skipped;

/// Who keeps the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    Nft,
    Legacy,
    /// nf_tables without iptables, in every plugin that has a backend.
    Native,
}

impl Backend {
    const ALL: [Self; 3] = [Self::Nft, Self::Legacy, Self::Native];

    fn sandbox(self) -> Sandbox {
        match self {
            Self::Nft | Self::Native => Sandbox::new(),
            Self::Legacy => Sandbox::with_flavour(Flavour::Legacy),
        }
    }

    /// Nomad's list of both families, with the MAC spoof check.
    fn list(self) -> Value {
        let mut list = Nomad::version("1.0.0").dual_stack().conflist();
        list["plugins"][1]["macspoofchk"] = json!(true);
        if self == Self::Native {
            list["plugins"][1]["ipMasqBackend"] = json!("nftables");
            list["plugins"][2]["backend"] = json!("nftables");
            list["plugins"][3]["backend"] = json!("nftables");
        }
        list
    }
}

/// A container with a published port, and what made it.
struct RepairedContainer<'s> {
    tool: CniTool<'s>,
    container: Container,
    port: u16,
}

impl<'s> RepairedContainer<'s> {
    fn add(sandbox: &'s Sandbox, list: &Value, name: &str, port: u16) -> Self {
        let ports = ["tcp", "udp"].map(|proto| json!({"hostPort": port, "containerPort": 80, "protocol": proto}));
        let tool = CniTool::new(sandbox, list).capabilities(json!({"portMappings": ports}));
        let container = sandbox.container(name);
        tool.add(&container).expect_success();
        Self { tool, container, port }
    }

    /// Three of them.
    fn three(sandbox: &'s Sandbox, list: &Value) -> [Self; 3] {
        [("first", 8080), ("second", 8081), ("third", 8082)].map(|(name, port)| Self::add(sandbox, list, name, port))
    }

    fn is_whole(&self) -> bool {
        self.tool.check(&self.container).succeeded()
    }

    #[track_caller]
    fn check(&self) {
        self.tool.check(&self.container).expect_success();
    }
}

fn repair_with(sandbox: &Sandbox, arguments: &[&str]) -> Invocation {
    let words: Vec<&str> = ["repair"].into_iter().chain(arguments.iter().copied()).collect();
    Invocation::new(sandbox, "cni-plugins", Verb::Add).arguments(&words)
}

fn repair(sandbox: &Sandbox, arguments: &[&str]) -> Outcome {
    repair_with(sandbox, arguments).run()
}

/// Runs a line of shell, which must succeed.
#[track_caller]
fn shell(sandbox: &Sandbox, line: &str) {
    sandbox.exec(&["sh", "-c", line]).expect_success();
}

/// What is said of each attachment, in order: what stands between the names and the details.
fn words(outcome: &Outcome) -> Vec<&str> {
    let said = outcome.stdout().lines().map(|line| line.split(": ").nth(1).unwrap_or(line));
    said.collect()
}

/// Requires that a run has succeeded, said this of each attachment, and warned of nothing.
#[track_caller]
fn assert_said(outcome: &Outcome, said: &[&str]) {
    outcome.expect_success();
    assert_eq!(words(outcome), said, "{outcome}");
    assert_eq!(outcome.stderr(), "", "{outcome}");
}

/// Everything that the sandbox's host has, and the containers.
fn state(sandbox: &Sandbox, guests: &[RepairedContainer<'_>]) -> State {
    let containers: Vec<_> = guests.iter().map(|attached| &*attached.container).collect();
    State::capture(sandbox, &containers)
}
