//! Only the host reaches services that listen on its loopback address.
//!
//! A port mapping with `snat` lets the host route from 127.0.0.1 to the container's link, and so lets the container
//! reach the host's 127.0.0.1, by frames to the bridge's MAC address. The reference leaves that hole open, as
//! Kubernetes did until CVE-2020-8558; here a table of nf_tables closes it. Each test first shows that its packets
//! would arrive without the table.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use cni_conformance::nomad::GATEWAY_V4;
use cni_conformance::traffic::{Echo, Transport, ask, ask_within};
use cni_conformance::{Attachment, Container, Flavour, Nomad, Outside, PortMapping, Runtime, Sandbox, Spelling, State};

const TABLE: &str = "inet cni_plugins_localnet";

/// How long to wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(400);
/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where the host serves on its loopback.
const LISTENER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8500);

/// Attaches a container that serves at port 80, with a port of the host.
fn attach(sandbox: &Sandbox, name: &str, host_port: u16) -> Container {
    let container = sandbox.container(name);
    let ports = PortMapping::twins(host_port, 80);
    let mut attachment = Attachment::new(name, &container).ports(&ports, Spelling::Go);
    Runtime::new(sandbox, Nomad::default().conflist()).add(&mut attachment).expect_success();
    container
}

/// Lets a container send to 127.0.0.1 by its link to the bridge, instead of to itself.
fn turn_loopback_outwards(container: &Container) {
    for link in ["all", "eth0"] {
        container.run(|| std::fs::write(format!("/proc/sys/net/ipv4/conf/{link}/route_localnet"), "1")).expect("set");
    }
    container.sh("ip address delete 127.0.0.1/8 dev lo");
    container.sh(&format!("ip route add 127.0.0.0/8 via {GATEWAY_V4} dev eth0"));
}

#[test]
fn a_container_does_not_reach_the_hosts_loopback() {
    for flavour in Flavour::ALL {
        let sandbox = Sandbox::with_flavour(flavour);
        let attacker = attach(&sandbox, "attacker", 8080);
        turn_loopback_outwards(&attacker);
        let _listeners = Transport::ALL.map(|transport| Echo::start(sandbox.host(), transport, LISTENER));
        let try_both = |time| Transport::ALL.map(|transport| ask_within(&attacker, transport, LISTENER, time).is_ok());
        assert_eq!(try_both(SILENCE), [false, false], "{flavour:?}");
        sandbox.sh(&format!("nft delete table {TABLE}"));
        assert_eq!(try_both(PATIENCE), [true, true], "the packets must arrive without the table");
        attach(&sandbox, "next", 8081);
        assert_eq!(try_both(SILENCE), [false, false], "the next ADD brings the table back");
    }
}

/// The other way round: nobody outside can pretend to be the host itself. The kernel's own filter of
/// source addresses, if it is on, would do it as well; it knows just the addresses that are assigned.
#[test]
fn a_container_does_not_send_as_the_hosts_loopback() {
    let sandbox = Sandbox::new();
    for link in ["all", "default"] {
        sandbox.set_sysctl(&format!("net/ipv4/conf/{link}/rp_filter"), "0");
    }
    let attacker = attach(&sandbox, "attacker", 8080);
    turn_loopback_outwards(&attacker);
    attacker.sh("ip address add 127.0.0.5/32 dev eth0");
    let gateway: SocketAddr = format!("{GATEWAY_V4}:8500").parse().expect("address and port");
    let server = UdpSocket::bind(gateway).expect("bound");
    let arrives = |time| -> bool {
        server.set_read_timeout(Some(time)).expect("set");
        let sent = attacker.run(|| UdpSocket::bind("127.0.0.5:0").and_then(|socket| socket.send_to(b"?", gateway)));
        sent.expect("sent");
        match server.recv_from(&mut [0; 8]) {
            Ok((_, peer)) => {
                assert_eq!(peer.ip(), Ipv4Addr::new(127, 0, 0, 5));
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => panic!("receive: {error}"),
        }
    };
    assert!(!arrives(SILENCE));
    sandbox.sh(&format!("nft delete table {TABLE}"));
    assert!(arrives(PATIENCE), "the packet must arrive without the table");
}

#[test]
fn the_host_still_reaches_its_ports_and_itself_on_loopback() {
    for flavour in Flavour::ALL {
        let sandbox = Sandbox::with_flavour(flavour);
        let outside = sandbox.outside();
        let container = attach(&sandbox, "web", 8080);
        let _servers = (Echo::everywhere(&container, 80), Echo::everywhere(sandbox.host(), LISTENER.port()));
        for transport in Transport::ALL {
            for server in ["127.0.0.1:8080", "127.0.0.2:8080"] {
                let seen = ask(sandbox.host(), transport, server.parse().expect("address and port")).expect(server);
                assert_eq!(seen.ip().to_string(), GATEWAY_V4, "{server} by {transport}");
            }
            let seen = ask(sandbox.host(), transport, LISTENER).expect("the host's own server");
            assert_eq!(seen.ip(), Ipv4Addr::LOCALHOST);
            ask(&outside, transport, (Outside::HOST_V4, 8080).into()).expect("the port from outside");
        }
    }
}

/// Administrators lead packets to servers on loopback; these come in with another address.
#[test]
fn packets_that_the_administrator_leads_to_loopback_arrive() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    attach(&sandbox, "web", 8080);
    let _listeners = Transport::ALL.map(|transport| Echo::start(sandbox.host(), transport, LISTENER));
    sandbox.set_sysctl(&format!("net/ipv4/conf/{}/route_localnet", Outside::HOST_LINK), "1");
    for transport in Transport::ALL {
        let matches = format!("-i {} -p {transport} --dport 7000", Outside::HOST_LINK);
        sandbox.sh(&format!("iptables -t nat -I PREROUTING {matches} -j DNAT --to-destination {LISTENER}"));
        ask(&outside, transport, (Outside::HOST_V4, 7000).into()).expect("led to loopback");
    }
}

/// What routes nothing from loopback needs no guard.
#[test]
fn without_snat_or_ipv4_ports_there_is_no_table() {
    let with = |change: fn(&mut serde_json::Value), mapped: &[PortMapping]| {
        let sandbox = Sandbox::new();
        let mut list = Nomad::default().dual_stack().conflist();
        change(&mut list);
        let container = sandbox.container("c");
        let mut attachment = Attachment::new("c", &container).ports(mapped, Spelling::Go);
        Runtime::new(&sandbox, list).add(&mut attachment).expect_success();
        let state = State::of_host(&sandbox);
        state.section("nftables").iter().any(|line| line.contains(TABLE))
    };
    let port = PortMapping::new(8080, 80, "tcp");
    assert!(with(|_| {}, std::slice::from_ref(&port)));
    assert!(!with(|_| {}, &[]));
    assert!(!with(|_| {}, &[port.clone().on("::")]));
    assert!(!with(|list| list["plugins"][3]["snat"] = false.into(), &[port]));
}
