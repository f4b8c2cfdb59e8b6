//! The harness itself: sandboxes are separate, leave nothing behind, and see what plugins do.
//!
//! These tests pass with any set of working plugins, so they distinguish a broken harness from a broken plugin.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use cni_conformance::cases::one_of_three_within;
use cni_conformance::nomad::GATEWAY_V4;
use cni_conformance::state::{self, diff};
use cni_conformance::traffic::{Capture, Echo, Transport, ask, ping, ping_until_answered};
use cni_conformance::{
    Attachment, Flavour, Invocation, Network, Nomad, Outside, PortMapping, Runtime, Sandbox, Spelling, State, Verb,
};

const ALLOC: &str = "6b235529-8111-4bbe-520b-d639b1d2a94e";

#[test]
fn a_sandbox_hides_its_files_and_links_from_the_machine() {
    let marker = "/run/conformance-marker";
    let link_before = fs::read_link("/proc/thread-self/ns/net").expect("name the namespace");
    {
        let sandbox = Sandbox::new();
        fs::write(marker, "inside").expect("write inside of the sandbox");
        sandbox.sh("ip link add br9 type bridge");
        assert_ne!(fs::read_link("/proc/thread-self/ns/net").expect("name the namespace"), link_before);
    }
    assert_eq!(fs::read_link("/proc/thread-self/ns/net").expect("name the namespace"), link_before);
    assert!(!Path::new(marker).exists(), "{marker} came out of the sandbox");
}

#[test]
fn sandboxes_of_parallel_threads_do_not_meet() {
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                let sandbox = Sandbox::new();
                let container = sandbox.container("same-name");
                sandbox.sh("ip link add same0 type veth peer name eth0 netns same-name");
                let network = Network::observe(&container);
                assert_eq!(network.links.len(), 2, "lo and eth0 only: {network:?}");
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a sandbox in its own thread");
    }
}

#[test]
fn the_outside_reaches_the_host_but_no_container_network() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    for host in [IpAddr::from(Outside::HOST_V4), IpAddr::from(Outside::HOST_V6)] {
        ping_until_answered(&outside, host, Duration::from_secs(20));
    }
    let gateway: IpAddr = GATEWAY_V4.parse().expect("an address");
    assert!(!ping(&outside, gateway, Duration::from_millis(200)), "there is no route to {gateway}");
}

#[test]
fn echo_servers_tell_the_source_and_captures_show_it() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let _servers = Echo::everywhere(sandbox.host(), 7000);
    let capture = Capture::start(&outside, Outside::LINK);
    let server = SocketAddr::new(Outside::HOST_V4.into(), 7000);
    for transport in Transport::ALL {
        let seen = ask(&outside, transport, server).expect("the host answers");
        assert_eq!(seen.ip(), IpAddr::from(Outside::V4), "{transport}");
    }
    let packets = capture.stop();
    let to_server: Vec<_> = packets.iter().filter(|packet| packet.destination == server).collect();
    assert!(to_server.iter().any(|packet| packet.protocol == 6), "a TCP packet: {packets:?}");
    assert!(to_server.iter().any(|packet| packet.protocol == 17), "a UDP packet: {packets:?}");
    assert!(to_server.iter().all(|packet| packet.source.ip() == IpAddr::from(Outside::V4)), "{packets:?}");
}

#[test]
fn a_snapshot_shows_what_add_made_and_that_del_removed_it() {
    for flavour in Flavour::ALL {
        let sandbox = Sandbox::with_flavour(flavour);
        let nomad = Nomad::default();
        let runtime = Runtime::new(&sandbox, nomad.conflist());
        nomad.ensure_forwarding_rules(&sandbox);
        // The first container makes what all of them share.
        let first = sandbox.container("first");
        runtime.add(&mut Attachment::new("first", &first)).expect_success();
        let container = sandbox.container("second");
        let before = State::capture(&sandbox, &[&container]);
        let mut attachment = Attachment::new(ALLOC, &container).ports(&PortMapping::twins(8080, 80), Spelling::Go);
        runtime.add(&mut attachment).expect_success();
        let during = State::capture(&sandbox, &[&container]);
        let changes = diff(&before, &during);
        for part in ["+ iptables nat: -A CNI-DN-", "+ host links: veth", "links: eth0 veth up", "/run/cni/nomad/172."] {
            assert!(changes.iter().any(|line| line.contains(part)), "{part} in\n{}", changes.join("\n"));
        }
        runtime.del(&attachment).expect_success();
        let after = State::capture(&sandbox, &[&container]);
        let left = diff(&before, &after);
        assert!(!left.iter().any(|line| line.contains(ALLOC)), "{}", left.join("\n"));
        assert!(!left.iter().any(|line| line.contains("links: veth")), "{}", left.join("\n"));
        state::assert_same(&after, &State::capture(&sandbox, &[&container]));
    }
}

#[test]
fn a_traced_run_names_the_processes_of_a_plugin() {
    let sandbox = Sandbox::with_flavour(Flavour::Legacy);
    let container = sandbox.container("traced");
    let runtime = Runtime::new(&sandbox, Nomad::default().conflist());
    let attachment = Attachment::new("traced", &container);
    let outcome = runtime.invocation(Verb::Add, "bridge", &attachment, None).traced(true).run();
    outcome.expect_success();
    let names: Vec<_> = outcome.children().iter().map(|process| process.name().to_owned()).collect();
    assert!(!names.is_empty() && names.iter().all(|name| name.contains("tables")), "{names:?}");
}

#[test]
fn a_kill_ends_a_plugin_at_once() {
    one_of_three_within(Duration::from_secs(1), || {
        let sandbox = Sandbox::new();
        let outcome = Invocation::new(&sandbox, "bridge", Verb::Add).killed_after(Duration::ZERO).run();
        assert!(outcome.code().is_none() || outcome.code() == Some(1), "{outcome}");
        outcome.elapsed()
    });
}
