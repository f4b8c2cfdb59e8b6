//! `backend: "nftables"` of portmap: the reference's table `cni_hostport`, with its defects repaired.
//!
//! The chains, their hooks and the comment of a rule, which is the container's ID, are the reference's;
//! its CHECK counts our rules and its DEL deletes them. Where ours stand differently, a test says why.

use std::net::IpAddr;

use cni_conformance::{Invocation, Sandbox, Verb};
use serde_json::{Value, json};

mod layout;
mod lifecycle;
mod reference;
mod traffic;

const V4: &[&str] = &["10.88.0.5/24"];
const DUAL: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

/// The plugin, called alone behind a bridge plugin that never ran.
struct Lone<'s> {
    sandbox: &'s Sandbox,
    id: &'static str,
    ifname: &'static str,
    config: Value,
}

impl<'s> Lone<'s> {
    fn new(sandbox: &'s Sandbox, id: &'static str, addresses: &[&str], ports: Value, keys: Value) -> Self {
        let ips: Value = addresses.iter().map(|address| json!({"address": address})).collect();
        let mut config = json!({
            "cniVersion": "1.0.0", "name": "n1", "type": "portmap", "backend": "nftables",
            "runtimeConfig": {"portMappings": ports}, "prevResult": {"cniVersion": "1.0.0", "ips": ips},
        });
        for (key, value) in keys.as_object().expect("keys of a configuration") {
            config[key] = value.clone();
        }
        Self { sandbox, id, ifname: "eth0", config }
    }

    /// The same container in another network, by another interface.
    fn in_network(mut self, network: &str, ifname: &'static str) -> Self {
        self.config["name"] = json!(network);
        self.ifname = ifname;
        self
    }

    fn call(&self, verb: Verb) -> Invocation {
        Invocation::new(self.sandbox, "portmap", verb)
            .container_id(self.id)
            .ifname(self.ifname)
            .netns(&format!("/run/netns/{}", self.id))
            .config(&self.config)
    }

    #[track_caller]
    fn succeeds(&self, verb: Verb) {
        self.call(verb).run().expect_success();
    }
}

fn tcp(host: u16, container: u16) -> Value {
    json!({"hostPort": host, "containerPort": container, "protocol": "tcp"})
}

fn udp(host: u16, container: u16) -> Value {
    json!({"hostPort": host, "containerPort": container, "protocol": "udp"})
}

/// Returns what `nft` lists of the table in a family.
fn table(sandbox: &Sandbox, family: &str) -> String {
    sandbox.sh(&format!("nft --stateless list table {family} cni_hostport"))
}

/// Returns what `nft` lists of all tables.
fn ruleset(sandbox: &Sandbox) -> String {
    sandbox.sh("nft --stateless list ruleset")
}

/// Carries out a script of `nft`.
fn run_script(sandbox: &Sandbox, script: &str) {
    std::fs::write("/run/conformance/script.nft", script).expect("write a script for nft");
    sandbox.sh("nft -f /run/conformance/script.nft");
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
