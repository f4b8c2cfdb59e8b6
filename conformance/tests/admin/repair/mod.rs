//! `cni-plugins repair`: the rules that somebody else has flushed come back, and nothing else changes.
//!
//! What a script can say is in `conformance/cases/admin`. The reference has nothing of the kind: its containers stay without
//! connection until they are created again.

use std::path::PathBuf;

use cni_conformance::{
    Attachment, Container, Flavour, Invocation, Nomad, Outcome, PortMapping, Runtime, Sandbox, Spelling, State, Verb,
    result_cache,
};
use serde_json::{Value, json};

mod at_once;
mod deleted;
mod many;
mod single;

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

/// A container with a published port, whose ID is its name, and what made it.
struct RepairedContainer<'s> {
    runtime: Runtime<'s>,
    list: Value,
    at: Attachment,
    container: Container,
}

impl<'s> RepairedContainer<'s> {
    fn add(sandbox: &'s Sandbox, list: &Value, name: &str, port: u16) -> Self {
        let container = sandbox.container(name);
        let at = Attachment::new(name, &container).ports(&PortMapping::twins(port, 80), Spelling::Go);
        let mut added = Self { runtime: Runtime::new(sandbox, list.clone()), list: list.clone(), at, container };
        added.add_again();
        added
    }

    fn add_again(&mut self) {
        self.runtime.add(&mut self.at).expect_success();
        result_cache::store(&self.list, &self.at);
    }

    /// The file of the cache.
    fn file(&self) -> PathBuf {
        let network = self.list["name"].as_str().expect("a name");
        PathBuf::from(format!("/var/lib/cni/results/{network}-{}-eth0", self.at.container_id))
    }

    fn del(&self) {
        self.runtime.del(&self.at).expect_success();
        result_cache::remove(&self.list, &self.at);
    }

    /// DEL of one plugin.
    fn del_of(&self, plugin: &str) {
        let call = self.runtime.invocation(Verb::Del, plugin, &self.at, self.at.result.as_ref());
        call.run().expect_success();
    }

    fn is_whole(&self) -> bool {
        self.runtime.check(&self.at).succeeded()
    }

    #[track_caller]
    fn check(&self) {
        self.runtime.check(&self.at).expect_success();
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
