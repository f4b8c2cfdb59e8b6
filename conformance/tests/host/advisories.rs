//! The security advisories about the Go plugins and their libraries, each as a test that bears its number.
//!
//! Each shows, where it can, that the attack would succeed if what keeps it off were taken away.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::cases::for_each;
use cni_conformance::nomad::GATEWAY_V4;
use cni_conformance::state::assert_same;
use cni_conformance::traffic::{Echo, Transport, ask, ask_within};
use cni_conformance::{
    Attachment, Container, Invocation, Nomad, Outside, PortMapping, Runtime, Sandbox, Spelling, Standalone, State,
    Verb, binaries, script,
};
use serde_json::{Value, json};

/// How long to wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(400);
/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

const VERBS: [Verb; 5] = [Verb::Add, Verb::Check, Verb::Del, Verb::Gc, Verb::Status];

fn list(backend: &str) -> Value {
    let mut list = Nomad::version("1.0.0").conflist();
    list["plugins"][3]["backend"] = json!(backend);
    list
}

fn attach(sandbox: &Sandbox, list: &Value, name: &str, ports: &[PortMapping]) -> Container {
    let container = sandbox.container(name);
    let mut attachment = Attachment::new(name, &container).ports(ports, Spelling::Go);
    Runtime::new(sandbox, list.clone()).add(&mut attachment).expect_success();
    container
}

/// GHSA-jv3w-x3r3-g6rm: a mapped port was captured on its way through the host to whatever address, and so was one of
/// an address that is not the host's.
#[test]
fn cve_2025_67499_a_port_of_another_machine_is_not_captured() {
    for_each(["iptables", "nftables"].map(|backend| (backend, backend)), |backend| {
        let sandbox = Sandbox::new();
        let nomad = Nomad::default();
        let outside = sandbox.outside();
        nomad.ensure_forwarding_rules(&sandbox);
        let foreign = "198.51.100.9";
        outside.sh(&format!("ip address add {foreign}/32 dev lo"));
        let of_foreign = PortMapping::twins(5353, 80).into_iter().map(|port| port.on(foreign));
        let ports: Vec<PortMapping> = PortMapping::twins(8080, 80).into_iter().chain(of_foreign).collect();
        let victim = attach(&sandbox, &list(backend), "victim", &ports);
        let client = attach(&sandbox, &list(backend), "client", &[]);
        let foreign: IpAddr = foreign.parse().expect("an address");
        let _victims = Echo::everywhere(&victim, 80);
        let serve = |(port, transport)| Echo::start(&outside, transport, SocketAddr::new(foreign, port));
        let served = [8080, 5353].into_iter().flat_map(|port| Transport::ALL.map(|transport| (port, transport)));
        let _others: Vec<Echo> = served.map(serve).collect();
        for port in [8080, 5353] {
            for transport in Transport::ALL {
                let server = SocketAddr::new(foreign, port);
                let seen = ask(&client, transport, server).expect("the other machine answers");
                assert_eq!(seen.ip(), IpAddr::from(Outside::HOST_V4), "{transport} {server} is served outside");
            }
        }
        let own = SocketAddr::new(Outside::HOST_V4.into(), 8080);
        assert_eq!(ask(&outside, Transport::Tcp, own).expect("the host's own").ip(), IpAddr::from(Outside::V4));
    });
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
    let container = attach(&sandbox, &nomad.conflist(), "attacker", &[]);
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

/// The rules of host ports stood before those of Kubernetes' services.
#[test]
fn cve_2019_9946_rules_of_services_stay_first() {
    let sandbox = Sandbox::new();
    sandbox.sh("iptables -t nat -N KUBE-SERVICES");
    for chain in ["PREROUTING", "OUTPUT"] {
        sandbox.sh(&format!("iptables -t nat -A {chain} -j KUBE-SERVICES"));
    }
    Nomad::default().ensure_forwarding_rules(&sandbox);
    attach(&sandbox, &list("iptables"), "a", &PortMapping::twins(8080, 80));
    attach(&sandbox, &list("iptables"), "b", &PortMapping::twins(8081, 80));
    for chain in ["PREROUTING", "OUTPUT"] {
        let rules = sandbox.sh(&format!("iptables -t nat -S {chain}"));
        let jumps: Vec<&str> = rules.lines().filter_map(|rule| rule.split(" -j ").nth(1)).collect();
        assert_eq!(jumps, ["KUBE-SERVICES", "CNI-HOSTPORT-DNAT"], "{chain}");
    }
}

/// And issue 729 of the Go plugins: `route_localnet` opens the host's loopback to its neighbours.
#[test]
fn cve_2020_8558_a_container_does_not_reach_the_hosts_loopback() {
    for_each(["iptables", "nftables"].map(|backend| (backend, backend)), |backend| {
        let sandbox = Sandbox::new();
        Nomad::default().ensure_forwarding_rules(&sandbox);
        let attacker = attach(&sandbox, &list(backend), "attacker", &PortMapping::twins(8080, 80));
        for link in ["all", "eth0"] {
            attacker.run(|| fs::write(format!("/proc/sys/net/ipv4/conf/{link}/route_localnet"), "1")).expect("set");
        }
        attacker.sh("ip address delete 127.0.0.1/8 dev lo");
        attacker.sh(&format!("ip route add 127.0.0.0/8 via {GATEWAY_V4} dev eth0"));
        let listener = SocketAddr::from(([127, 0, 0, 1], 8500));
        let _servers = Transport::ALL.map(|transport| Echo::start(sandbox.host(), transport, listener));
        let reaches = |time| Transport::ALL.map(|transport| ask_within(&attacker, transport, listener, time).is_ok());
        assert_eq!(reaches(SILENCE), [false, false]);
        sandbox.sh("nft delete table inet cni_plugins_localnet");
        assert_eq!(reaches(PATIENCE), [true, true], "the packets arrive without the table");
    });
}

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

/// Issue 798 of the Go plugins: names of interfaces and keys led out of `/proc/sys/net`.
#[test]
fn issue_798_no_name_leads_out_of_the_parameters_of_the_network() {
    let sandbox = Sandbox::new();
    let container = sandbox.container("c1");
    let before = fs::read_to_string("/proc/sys/kernel/threads-max").expect("read");
    let tuning = |sysctl: Value| {
        let prev_result = json!({"cniVersion": "1.0.0", "interfaces": [], "ips": []});
        Standalone::new(&sandbox, "tuning", "c1", &prev_result, &json!({"sysctl": sysctl}))
    };
    let state = State::capture(&sandbox, &[&container]);
    for key in [
        "net/../kernel/threads-max",
        "net.ipv4.conf.../../../kernel.threads-max",
        "net/ipv4/../../kernel/threads-max",
        "net/./../kernel/threads-max",
        "../proc/sys/kernel/threads-max",
        "/proc/sys/kernel/threads-max",
        "net.ipv4.conf.IFNAME/../../../../kernel/threads-max",
    ] {
        let outcome = tuning(json!({key: "1000"})).call(Verb::Add).run();
        assert!(!outcome.succeeded(), "{key}: {outcome}");
        assert_eq!(fs::read_to_string("/proc/sys/kernel/threads-max").expect("read"), before, "{key}");
    }
    for ifname in ["..", ".", "../all", "a/b", "../../kernel"] {
        let call = tuning(json!({"net.ipv4.conf.IFNAME.rp_filter": "1"})).call(Verb::Add).ifname(ifname);
        call.run().expect_error(4, "");
    }
    assert_same(&state, &State::capture(&sandbox, &[&container]));
}

/// Issues 679, 697, 698 and 712 of the CNI project: what names may be, so that none of them is a path or an option.
#[test]
fn issues_679_697_698_and_712_no_name_leads_anywhere() {
    let sandbox = Sandbox::new();
    let container = sandbox.container("c1");
    let config = |name: &str| {
        json!({
            "cniVersion": "1.0.0", "name": name, "type": "bridge",
            "ipam": {"type": "host-local", "subnet": "10.1.2.0/24", "dataDir": "/run/leases"},
        })
    };
    let bad = ["../x", "a/b", "/etc", "..", ".", "-rf", "a b", "a\nb", "a:b", ".hidden", "a;b"];
    for plugin in ["bridge", "host-local", "loopback", "firewall", "portmap", "tuning"] {
        for verb in [Verb::Add, Verb::Check, Verb::Del] {
            let call =
                |name: &str| Invocation::new(&sandbox, plugin, verb).netns(container.path()).config(&config(name));
            for name in bad {
                assert!(!call(name).run().succeeded(), "{plugin} {verb}: network {name:?}");
                assert!(!call("n1").container_id(name).run().succeeded(), "{plugin} {verb}: container {name:?}");
            }
            for name in ["../x", "a/b", "..", ".", "a b", "a:b", "sixteen-letters-"] {
                assert!(!call("n1").ifname(name).run().succeeded(), "{plugin} {verb}: interface {name:?}");
            }
        }
    }
    assert!(!Path::new("/run/leases").exists(), "no call has come as far as that");
}
