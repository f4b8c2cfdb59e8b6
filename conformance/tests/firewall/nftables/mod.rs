//! `backend: "nftables"` of firewall: the table `inet cni_firewall`, which the reference does not have.
//!
//! Two sets contain the containers' addresses. One chain has the isolation, the administrator's chain and the sets, in
//! this order, as the rules of iptables do. Golden texts are what `nft` lists after it has read a script, so that the
//! version of `nft` does not matter.

use std::fs;

use cni_conformance::keys::with;
use cni_conformance::standalone::bridge_result;
use cni_conformance::{Sandbox, Standalone, State};
use serde_json::{Value, json};

mod check;
mod layout;
mod lifecycle;
mod switch;
mod traffic;

const TABLE: &str = "inet cni_firewall";

const V4: &[&str] = &["10.88.0.5/24"];
const V6: &[&str] = &["fd00:88::5/64"];
const DUAL: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

/// What the plugins write down for themselves.
const RECORDS: &str = "/run/cni/.cni-plugins-rs";

/// The plugin, for a container on `br0`.
fn firewall<'s>(sandbox: &'s Sandbox, id: &str, addresses: &[&str], keys: &Value) -> Standalone<'s> {
    on_bridge(sandbox, "br0", id, addresses, keys)
}

fn on_bridge<'s>(sandbox: &'s Sandbox, bridge: &str, id: &str, addresses: &[&str], keys: &Value) -> Standalone<'s> {
    let keys = with(&json!({"backend": "nftables"}), keys);
    Standalone::new(sandbox, "firewall", id, &bridge_result(bridge, addresses), &keys)
}

/// What `nft` lists of the table.
fn table(sandbox: &Sandbox) -> String {
    sandbox.sh(&format!("nft --stateless list table {TABLE}"))
}

/// The addresses in both sets.
fn elements(sandbox: &Sandbox) -> Vec<String> {
    let listed = table(sandbox);
    let words = listed.split_whitespace().map(|word| word.trim_end_matches(','));
    words.filter(|word| word.parse::<std::net::IpAddr>().is_ok()).map(str::to_owned).collect()
}

/// The rules for addresses that iptables keeps, of both families.
fn rules_of_iptables(sandbox: &Sandbox) -> Vec<String> {
    let printed = ["iptables", "ip6tables"].map(|program| sandbox.sh(&format!("{program} --wait -S")));
    let of_containers = |line: &&str| line.contains("10.88.0.") || line.contains("fd00:88:");
    printed.concat().lines().filter(of_containers).map(str::to_owned).collect()
}

/// The records of whose the containers' addresses are.
fn claims(sandbox: &Sandbox) -> Vec<String> {
    let state = State::of_host(sandbox);
    let of_claims = |line: &&String| line.starts_with(RECORDS) && line.contains("/claims/");
    state.section("files").iter().filter(of_claims).cloned().collect()
}

/// Loses what the plugins have written down.
fn forget_claims(sandbox: &Sandbox) {
    assert!(!claims(sandbox).is_empty(), "nothing was written down");
    fs::remove_dir_all(RECORDS).expect("forget the claims");
}

/// Runs a command of `nft`, given as one text.
#[track_caller]
fn nft(sandbox: &Sandbox, command: &str) {
    sandbox.exec(&["nft", command]).expect_success();
}
