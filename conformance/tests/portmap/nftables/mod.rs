//! `backend: "nftables"` of portmap: the reference's table `cni_hostport`, without its defects.
//!
//! The chains, their hooks and the comment of a rule, which is the container's ID, are the reference's; its CHECK
//! counts our rules and its DEL deletes them. Where ours differ, a test says why.

use std::net::IpAddr;

use cni_conformance::keys::with;
use cni_conformance::{Sandbox, Standalone};
use serde_json::{Value, json};

mod layout;
mod lifecycle;
mod reference;
mod traffic;

const V4: &[&str] = &["10.88.0.5/24"];
const DUAL: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

/// Describes the plugin behind a bridge plugin that never ran, in the network `n1`.
fn portmap<'s>(sandbox: &'s Sandbox, id: &str, addresses: &[&str], ports: Value, keys: &Value) -> Standalone<'s> {
    let ips: Value = addresses.iter().map(|address| json!({"address": address})).collect();
    let prev_result = json!({"cniVersion": "1.0.0", "ips": ips});
    let config = json!({"backend": "nftables", "runtimeConfig": {"portMappings": ports}});
    Standalone::new(sandbox, "portmap", id, &prev_result, &with(&config, keys))
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
