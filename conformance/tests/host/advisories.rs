//! The security advisories about the Go plugins and their libraries, each as a test that bears its number; others are in `cases/advisories`.
//!
//! Each shows, where it can, that the attack would succeed if what keeps it off were taken away.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Attachment, Container, Invocation, Nomad, Runtime, Sandbox, Verb, binaries, script};
use serde_json::{Value, json};

/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

const VERBS: [Verb; 5] = [Verb::Add, Verb::Check, Verb::Del, Verb::Gc, Verb::Status];

fn attach(sandbox: &Sandbox, list: &Value, name: &str) -> Container {
    let container = sandbox.container(name);
    let mut attachment = Attachment::new(name, &container);
    Runtime::new(sandbox, list.clone()).add(&mut attachment).expect_success();
    container
}

/// GHSA-fx6x-h9g4-56f8: a container announced itself as the host's router.
#[test]
fn cve_2020_10749_a_container_does_not_become_the_hosts_router() {
    let sandbox = Sandbox::new();
    let nomad = Nomad::default();
    nomad.ensure_forwarding_rules(&sandbox);
    for link in ["all", "default"] {
        sandbox.set_sysctl(&format!("net/ipv6/conf/{link}/accept_ra"), "1");
    }
    let container = attach(&sandbox, &nomad.conflist(), "attacker");
    let script = Path::new("/run/conformance/router.py");
    fs::write(script, ROUTER).expect("write a script");
    let announce = || container.must(&["/usr/bin/python3", script.to_str().expect("text")]);
    let heard = |patience: Duration| {
        let started = Instant::now();
        loop {
            announce();
            let addresses = sandbox.sh("ip -6 address show") + &sandbox.sh("ip -6 route show");
            let is_heard = addresses.contains("2001:db8:bad");
            if is_heard || started.elapsed() > patience {
                return is_heard;
            }
            thread::sleep(Duration::from_millis(100));
        }
    };
    thread::sleep(Duration::from_secs(2));
    assert!(!heard(Duration::from_secs(1)));
    sandbox.set_sysctl("net/ipv6/conf/nomad/accept_ra", "2");
    assert!(heard(PATIENCE), "the announcement arrives where it is listened to");
}

/// A router advertisement with a prefix (RFC 4861, 4.2 and 4.6.2).
const ROUTER: &str = r#"import socket, struct
sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
index = socket.if_nametoindex("eth0")
sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
prefix = socket.inet_pton(socket.AF_INET6, "2001:db8:bad::")
option = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 3600, 3600, 0) + prefix
sock.sendto(struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + option, ("ff02::1", 0, 0, index))
"#;

/// GHSA-xjqr-g762-pxwp: the type of a delegate led to any program.
#[test]
fn cve_2021_20206_a_delegate_is_a_name_and_no_path() {
    let sandbox = Sandbox::new();
    let container = sandbox.container("c1");
    let program = Path::new("/run/conformance/evil");
    script::install(program, "touch /run/conformance/was-run\necho '{\"cniVersion\": \"1.0.0\", \"ips\": []}'\n");
    let folder = binaries::under_test();
    let up = "../".repeat(folder.components().count());
    for plugin in ["bridge", "dummy", "ptp"] {
        for kind in ["/run/conformance/evil", &format!("{up}run/conformance/evil"), "./evil", "sub/evil"] {
            let config = json!({
                "cniVersion": "1.1.0", "name": "n1", "type": plugin, "ipam": {"type": kind},
                "prevResult": {"cniVersion": "1.1.0", "ips": []}, "cni.dev/valid-attachments": [],
            });
            for verb in VERBS {
                let call = Invocation::new(&sandbox, plugin, verb).netns(container.path()).config(&config);
                let outcome = call.path(&format!("{}:/run/conformance", folder.display())).run();
                assert!(!outcome.succeeded(), "{plugin} {verb} {kind}: {outcome}");
                assert!(!Path::new("/run/conformance/was-run").exists(), "{plugin} {verb} {kind}: {outcome}");
            }
        }
    }
}
