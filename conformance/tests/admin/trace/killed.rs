//! What is left of a trace that was killed: nothing.

use std::process::{Child, Command, Stdio};

use cni_conformance::wait::wait_until;
use cni_conformance::{Sandbox, binaries};

use super::{Extra, add, own_links, own_tables};
use crate::admin::tool;

fn start(sandbox: &Sandbox, words: &[&str]) -> Child {
    let mut command = Command::new(binaries::under_test().join("cni-plugins"));
    command.arg("trace").args(words).env_clear().env("PATH", sandbox.search_path());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start the tool")
}

fn kill(mut child: Child) {
    child.kill().expect("kill the tool");
    child.wait().expect("the tool ends");
}

#[test]
fn the_table_goes_with_a_killed_trace() {
    let sandbox = Sandbox::new();
    let child = start(&sandbox, &["8080", "--seconds", "600"]);
    wait_until("the table of the trace", || !own_tables(&sandbox).is_empty());
    let owned = sandbox.sh("nft list ruleset");
    assert!(owned.contains("flags owner"), "the kernel knows its owner: {owned}");
    kill(child);
    wait_until("the end of the table", || own_tables(&sandbox).is_empty());
}

#[test]
fn the_probes_namespace_and_link_go_with_a_killed_trace() {
    let sandbox = Sandbox::new();
    let _web = add(&sandbox, "web", Extra::Nothing);
    sandbox.sh("iptables -P FORWARD DROP");
    let child = start(&sandbox, &["8080", "--probe", "--seconds", "600"]);
    wait_until("the probe", || !own_tables(&sandbox).is_empty() && !own_links(&sandbox).is_empty());
    kill(child);
    wait_until("the end of the table", || own_tables(&sandbox).is_empty());
    wait_until("the end of the probe's namespace", || own_links(&sandbox).is_empty());
    let addresses = sandbox.sh("ip -oneline address show");
    assert!(!addresses.contains("198.18."), "{addresses}");
}

/// A kernel that does not delete the table with its socket leaves it to the next trace.
#[test]
fn the_next_trace_removes_a_table_that_was_left() {
    let sandbox = Sandbox::new();
    // No process has such a number.
    sandbox.sh("nft add table inet cni-plugins-trace-4194305");
    assert_ne!(own_tables(&sandbox), "");
    tool(&sandbox, &["trace", "8080", "--seconds", "1"]);
    assert_eq!(own_tables(&sandbox), "");
}
