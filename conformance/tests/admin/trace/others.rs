//! Packets that others send while `trace` waits.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use cni_conformance::traffic::{Transport, ask};
use cni_conformance::wait::wait_until;
use cni_conformance::{Sandbox, binaries};

use super::{ADDRESS, Extra, LOST, add, ip, last_line, name_of, own_tables, serve};
use crate::admin::tool;

/// Runs `trace` while packets come, once it listens.
fn during(sandbox: &Sandbox, words: &[&str], packets: impl FnOnce()) -> Output {
    let mut command = Command::new(binaries::under_test().join("cni-plugins"));
    command.arg("trace").args(words).env_clear().env("PATH", sandbox.search_path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start the tool");
    wait_until("the table of the trace", || !own_tables(sandbox).is_empty());
    packets();
    child.wait_with_output().expect("the tool ends")
}

#[test]
fn a_packet_of_others_is_followed_to_its_answer() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let web = add(&sandbox, "web", Extra::Firewall);
    let _server = serve(&web, "0.0.0.0:80");
    let name = name_of(ADDRESS);
    let done = during(&sandbox, &["8080", "--seconds", "60"], || {
        ask(&outside, Transport::Tcp, SocketAddr::new(ip("192.0.2.1"), 8080)).expect("an answer");
    });
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.starts_with("tcp 192.0.2.2:"), "{said}");
    assert!(said.contains("  in           it comes by uplink0\n"), "{said}");
    assert!(said.ends_with(&format!("arrived: container {name} has answered port 8080/tcp\n")), "{said}");
}

#[test]
fn packets_of_a_container_are_followed() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let _server = serve(&outside, "0.0.0.0:80");
    let web = add(&sandbox, "web", Extra::Firewall);
    let done = during(&sandbox, &["cnitool-", "to", "192.0.2.2", "--seconds", "60"], || {
        ask(&web, Transport::Tcp, SocketAddr::new(ip("192.0.2.2"), 80)).expect("an answer");
    });
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains("\narrived: 192.0.2.2 has answered container "), "{said}");
}

#[test]
fn a_port_to_which_nothing_comes_is_reported() {
    let sandbox = Sandbox::new();
    let done = tool(&sandbox, &["trace", "8080", "--seconds", "1"]);
    assert_eq!(done.code(), Some(LOST), "{done}");
    assert!(last_line(&done).starts_with("no packet to port 8080/tcp came within 1 seconds: "), "{done}");
}
