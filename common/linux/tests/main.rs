//! Steps, questions and rules on the kernel, each test in namespaces of its own.

mod handles;
mod iptables;
mod netns;
mod nftables;
mod steps;

use std::process::Command;

use cni_core::request::{Call, Environment, Request};
use cni_core::version::Version;
use cni_linux::host::LinuxHost;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// ADD of a bridge.
fn request() -> Request {
    let variables = [("CONTAINERID", "c1"), ("NETNS", "/run/netns/c1"), ("IFNAME", "eth0"), ("PATH", "/opt/cni/bin")];
    let variables = variables.map(|(name, value)| (format!("CNI_{name}"), value.to_owned()));
    let call = Call::parse("ADD", Environment::new(variables)).expect("a call");
    let config = br#"{"cniVersion":"1.0.0","name":"net1","type":"bridge"}"#;
    call.with_config(config.to_vec(), Version::ALL).expect("a request")
}

/// Moves the thread of the test into a new network namespace.
fn host() -> LinuxHost {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    LinuxHost::new(&request())
}

/// Moves the thread into new namespaces with an empty `/run`, which end with it.
fn alone() {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("new namespaces; this test needs root");
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private mounts");
    mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), none).expect("an empty /run");
}

/// Runs a program that must succeed, and returns what it prints.
fn run(command: &str) -> String {
    let mut words = command.split(' ');
    let output = Command::new(words.next().expect("a program")).args(words).output().expect("it is installed");
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}
