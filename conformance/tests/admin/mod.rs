//! The administrator's tool, `cni-plugins`: what it shows, what it removes, and what it advises.
//!
//! The real `cnitool` makes the attachments, so the cache is the one that libcni writes. The reference has nothing of the
//! kind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cni_conformance::child::Running;
use cni_conformance::wait::wait_until;
use cni_conformance::{CniTool, Container, Invocation, Nomad, Outcome, Sandbox, State, Verb, binaries};
use serde_json::{Value, json};

mod caches;
mod check;
mod doctor;
mod gc;
mod install;
mod metrics;
mod of_reference;
mod one_container;
mod pages;
mod repair;
mod safety;
mod trace;
mod unlocked;

/// The exit status of a verb that has found what it looks for.
const FOUND: i32 = 3;

const LEASES: &str = "/run/cni/nomad";

fn tool(sandbox: &Sandbox, words: &[&str]) -> Outcome {
    Invocation::new(sandbox, "cni-plugins", Verb::Add).without_env("CNI_COMMAND").arguments(words).run()
}

/// The document that a verb prints with `--json`, and its exit status.
#[track_caller]
fn document(sandbox: &Sandbox, words: &[&str]) -> (Value, Option<i32>) {
    let done = tool(sandbox, &[words, &["--json"]].concat());
    let parsed = serde_json::from_str(done.stdout());
    (parsed.unwrap_or_else(|error| panic!("{error}: {done}")), done.code())
}

/// Makes what is recorded of every attachment that of an ADD of long ago, or of one that was killed when it had made nothing.
fn age_records(sandbox: &Sandbox, is_killed: bool) {
    let script = if is_killed { r"s/^\(added\s\S*\).*/\1\x200/" } else { r"s/^\(added\s\S*\)\s\S*/\1\x200/" };
    sandbox.sh(&format!("find /run/cni -path */ledger/* -type f -exec sed -i {script} {{}} +"));
}

/// A container with a published port, and what made it.
struct PublishedContainer<'s> {
    tool: CniTool<'s>,
    container: Container,
}

impl<'s> PublishedContainer<'s> {
    fn add(sandbox: &'s Sandbox, name: &str, port: u16) -> Self {
        Self::add_by(&binaries::under_test(), sandbox, name, port)
    }

    /// By the plugins of a folder.
    fn add_by(folder: &Path, sandbox: &'s Sandbox, name: &str, port: u16) -> Self {
        let ports = json!([{"hostPort": port, "containerPort": 80, "protocol": "tcp"}]);
        let list = Nomad::version("1.0.0").conflist();
        let tool = CniTool::new(sandbox, &list).capabilities(json!({"portMappings": ports})).binaries(folder);
        let container = sandbox.container(name);
        tool.add(&container).expect_success();
        Self { tool, container }
    }
}

/// Starts a process in a container's namespace.
fn process_in(container: &Container) -> Running {
    container.run(|| Running(Command::new("sleep").arg("60").spawn().expect("start a process")))
}

/// A host that has had containers, so that what they share is there.
fn host() -> Sandbox {
    let sandbox = Sandbox::new();
    Nomad::version("1.0.0").ensure_forwarding_rules(&sandbox);
    sandbox
}

fn cache() -> Vec<PathBuf> {
    let files = fs::read_dir("/var/lib/cni/results").expect("list the cache");
    files.map(|entry| entry.expect("read the cache").path()).collect()
}

/// A container that is no longer in the cache, and has ended without a DEL two hours after it was added.
/// Returns its name.
fn forgotten(sandbox: &Sandbox, name: &str, port: u16) -> String {
    let known = cache();
    PublishedContainer::add(sandbox, name, port);
    let file = cache().into_iter().find(|file| !known.contains(file)).expect("its entry");
    let entry: Value = serde_json::from_slice(&fs::read(&file).expect("read the entry")).expect("JSON");
    let id = entry["containerId"].as_str().expect("a name").to_owned();
    fs::remove_file(&file).expect("remove the entry");
    lose(sandbox, name);
    for lease in fs::read_dir(LEASES).expect("list the leases").map(|entry| entry.expect("an entry").path()) {
        if fs::read_to_string(&lease).is_ok_and(|text| text.starts_with(&id)) {
            sandbox.exec(&["touch", "--date", "2 hours ago", lease.to_str().expect("text")]).expect_success();
        }
    }
    id
}

/// Changes the only file of the cache.
fn change_entry(change: impl FnOnce(&mut Value)) {
    let [file] = &cache()[..] else { panic!("one attachment has one file") };
    let mut entry: Value = serde_json::from_slice(&fs::read(file).expect("read the cache")).expect("JSON");
    change(&mut entry);
    fs::write(file, entry.to_string()).expect("write the cache");
}

/// Ends a namespace, and waits until the kernel has found the time to remove the interface.
fn lose(sandbox: &Sandbox, name: &str) {
    let links = || sandbox.sh("ip -brief link show type veth").lines().count();
    let before = links();
    sandbox.sh(&format!("ip netns del {name}"));
    wait_until("the kernel deletes the interface", || links() != before);
}

/// What is on the host, without what a look at leases may leave beside them.
fn state(sandbox: &Sandbox) -> Vec<String> {
    let lines = State::of_host(sandbox).lines().into_iter();
    lines.filter(|line| !line.contains("/.cni-plugins-rs") && !line.contains("/last_reserved_ip.")).collect()
}
