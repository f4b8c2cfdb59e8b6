//! The firewall plugin with firewalld: a real one, with its own bus, in each test's sandbox.
//!
//! Zones are what firewalld reports over D-Bus, rules are what iptables prints. The reference chooses the back end
//! again for every command. So it looks in the wrong place after firewalld was started or stopped, and its CHECK takes
//! firewalld's `no` for a `yes`.

use cni_conformance::firewalld::FirewalldHost;
use cni_conformance::{Invocation, Sandbox, Standalone, Verb};
use serde_json::{Value, json};

mod choice;
mod failures;
mod none;
mod repair;
mod traffic;
mod zones;

/// The address of most tests, as firewalld has it.
const V4: &[&str] = &["10.88.0.5/24"];
const DUAL: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];
const SOURCES: [&str; 2] = ["10.88.0.5/32", "fd00:88::5/128"];

/// The firewall plugin, called alone for one container on `br0`.
fn firewall<'m>(machine: &'m FirewalldHost, id: &str, addresses: &[&str], keys: &Value) -> Standalone<'m> {
    let ips: Vec<Value> = addresses.iter().map(|address| json!({"address": address, "interface": 1})).collect();
    let interfaces = json!([{"name": "br0"}, {"name": "eth0", "sandbox": format!("/run/netns/{id}")}]);
    let prev_result = json!({"cniVersion": "1.0.0", "interfaces": interfaces, "ips": ips});
    let (name, value) = machine.bus_variable();
    Standalone::new(machine.sandbox(), "firewall", id, &prev_result, keys).env(name, value)
}

/// Prepares a call of a command of version 1.1.0.
fn call_newer(client: &Standalone<'_>, verb: Verb) -> Invocation {
    client.clone().with("cniVersion", json!("1.1.0")).call(verb)
}

/// The rules for addresses that iptables keeps, of both families.
fn rules(sandbox: &Sandbox) -> Vec<String> {
    let printed = ["iptables", "ip6tables"].map(|program| sandbox.sh(&format!("{program} --wait -S")));
    printed
        .concat()
        .lines()
        .filter(|line| line.contains("10.88.0.") || line.contains("fd00:88:"))
        .map(str::to_owned)
        .collect()
}
