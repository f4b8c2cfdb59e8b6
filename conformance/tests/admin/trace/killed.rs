//! What is left of a trace that was killed: nothing.

use std::process::{Command, Stdio};

use cni_conformance::wait::wait_until;
use cni_conformance::{Flavour, binaries};
use serde_json::json;

use super::{TracedHost, V4, left};
use crate::admin::tool;

#[test]
fn table_namespace_and_link_of_a_killed_trace_are_deleted() {
    let host = TracedHost::of(V4, Flavour::Nft, &json!({}), &[]);
    host.sh("iptables -P FORWARD DROP");
    let mut command = Command::new(binaries::under_test().join("cni-plugins"));
    command.args(["trace", "8080", "--probe", "--seconds", "600"]).env_clear().env("PATH", host.sandbox.search_path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start the tool");
    wait_until("the probe", || ["cni-plugins-trace-", "cnitrace"].iter().all(|own| left(&host.sandbox).contains(own)));
    assert!(host.sandbox.sh("nft list ruleset").contains("flags owner"), "the kernel knows its owner");
    child.kill().expect("kill the tool");
    child.wait().expect("the tool ends");
    wait_until("the end of table and link", || left(&host.sandbox).is_empty());
    assert!(!host.sandbox.sh("ip -oneline address show").contains("198.18."));
    // A kernel that does not delete the table with its socket leaves it to the next trace. No process has such a number.
    host.sandbox.sh("nft add table inet cni-plugins-trace-4194305");
    tool(&host.sandbox, &["trace", "8080", "--seconds", "1"]);
    assert_eq!(left(&host.sandbox), "");
}
