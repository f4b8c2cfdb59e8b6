//! Connection tracking against the real kernel: what is listed, and what a deletion hits. Every test makes
//! a network namespace of its own, which ends with its thread; its one link is `lo`, with the addresses of
//! a host, of a client and of a container.

use std::cell::Cell;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use cni_core::family::Family;
use cni_kernel::conntrack::{Conntrack, TrackedConnection};
use cni_kernel::netlink::Socket;
use cni_netfilter::flows::{Flow, FlowFilter};
use nix::sched::{CloneFlags, unshare};

const HOST: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
const CLIENT: [&str; 2] = ["192.0.2.2", "2001:db8::2"];
const CONTAINER: [&str; 2] = ["10.88.0.5", "fd00:88::5"];

/// Moves the thread into a new namespace in which UDP port 8080 of the host leads to port 80 of the container.
fn enter() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    run("ip link set lo up");
    for [v4, v6] in [HOST, CLIENT, CONTAINER] {
        run(&format!("ip address add {v4}/32 dev lo"));
        run(&format!("ip address add {v6}/128 dev lo nodad"));
    }
    for (index, family) in Family::ALL.into_iter().enumerate() {
        let (program, host, to) = (family.iptables(), HOST[index], socket(CONTAINER[index], 80));
        run(&format!("{program} -t nat -A OUTPUT -d {host} -p udp --dport 8080 -j DNAT --to-destination {to}"));
    }
}

fn run(command: &str) {
    let mut words = command.split(' ');
    let output = Command::new(words.next().expect("a program")).args(words).output().expect("it is installed");
    assert!(output.status.success(), "{command}: {output:?}");
}

fn socket(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip(address), port)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn bind(address: &str, port: u16) -> UdpSocket {
    UdpSocket::bind(socket(address, port)).expect("bound")
}

fn all(family: Family) -> FlowFilter {
    FlowFilter { family, to: None, ports: Vec::new(), led_to: None }
}

fn flows(entries: &[TrackedConnection]) -> Vec<Flow> {
    let mut flows: Vec<Flow> = entries.iter().map(|entry| entry.flow).collect();
    flows.sort_by_key(|flow| flow.to);
    flows
}

/// Sends a datagram to each of some addresses, until the kernel tracks them all: a loaded one delivers late, or loses some.
fn track(client: &UdpSocket, to: impl IntoIterator<Item = SocketAddr>) {
    let limit = Instant::now() + Duration::from_secs(20);
    let (mut left, family) = (to.into_iter().collect::<Vec<_>>(), Family::of(client.local_addr().expect("bound").ip()));
    while !left.is_empty() {
        assert!(Instant::now() < limit, "{} connections are not tracked", left.len());
        left.iter().for_each(|to| drop(client.send_to(b"?", to)));
        thread::sleep(Duration::from_millis(5));
        let tracked =
            Conntrack::open().and_then(|mut conntrack| conntrack.udp(&all(family), |_| true)).expect("a list");
        let tracked: HashSet<SocketAddr> = tracked.iter().map(|entry| entry.flow.to).collect();
        left.retain(|to| !tracked.contains(to));
    }
}

/// How many connections the kernel sends, and how many of them are found.
fn seen_and_found(filter: &FlowFilter) -> (usize, usize) {
    let count = Cell::new(0);
    let mut conntrack = Conntrack::open().expect("a socket");
    let count_up = |_: &Flow| {
        count.set(count.get() + 1);
        true
    };
    let found = conntrack.udp(filter, count_up).expect("a list");
    (count.get(), found.len())
}

/// The kernel's own filter, seen by how much it sends: what is read is filtered as well.
#[test]
fn the_kernel_filters() {
    enter();
    for (index, client) in CLIENT.map(|client| bind(client, 4000)).iter().enumerate() {
        let ports = (9000..9200).chain([8080]).map(|port| socket(HOST[index], port));
        track(client, ports.chain([socket(CONTAINER[index], 9100)]));
    }
    for (index, family) in Family::ALL.into_iter().enumerate() {
        let of_one_port = FlowFilter { ports: vec![9100], ..all(family) };
        assert_eq!(seen_and_found(&all(family)), (202, 202));
        assert_eq!(seen_and_found(&of_one_port), (2, 2));
        let to = FlowFilter { to: Some(ip(HOST[index])), ..of_one_port.clone() };
        // Of IPv6 addresses the kernel would send all but the right one.
        assert_eq!(seen_and_found(&to), ([1, 2][index], 1));
        assert_eq!(seen_and_found(&FlowFilter { led_to: Some(ip(CONTAINER[index])), ..all(family) }), (1, 1));
        assert_eq!(seen_and_found(&FlowFilter { led_to: Some(ip(CLIENT[index])), ..all(family) }), ([0, 1][index], 0));
        assert_eq!(seen_and_found(&FlowFilter { led_to: Some(ip(HOST[index])), ..of_one_port }), (0, 0));
    }
}

#[test]
fn what_passes_a_filter_is_deleted_and_nothing_else() {
    enter();
    let client = bind(CLIENT[0], 4000);
    let ports = |to: &'static str| [8079, 8080, 8081].map(|port| socket(to, port));
    track(&client, [HOST[0], CONTAINER[0]].into_iter().flat_map(ports));
    track(&bind(CLIENT[1], 4000), [socket(HOST[1], 8081)]);
    let mut conntrack = Conntrack::open().expect("a socket");
    let filter = |to: Option<&str>, port, led_to: Option<&str>| FlowFilter {
        to: to.map(ip),
        ports: vec![port],
        led_to: led_to.map(ip),
        ..all(Family::V4)
    };
    let mut left: Vec<String> =
        [CONTAINER[0], HOST[0]].iter().flat_map(|to| [8079, 8080, 8081].map(|port| format!("{to}:{port}"))).collect();
    for (filters, gone) in [
        (vec![filter(Some(CLIENT[0]), 8081, None)], &[][..]),
        (vec![filter(None, 8081, Some(CONTAINER[0]))], &[]),
        (vec![filter(None, 8080, Some(CLIENT[0]))], &[]),
        (vec![filter(None, 8080, Some(CONTAINER[0]))], &["192.0.2.1:8080"]),
        (vec![filter(Some(HOST[0]), 8081, None)], &["192.0.2.1:8081"]),
        (vec![filter(Some(HOST[0]), 8079, None), filter(None, 8081, None)], &["192.0.2.1:8079", "10.88.0.5:8081"]),
    ] {
        assert_eq!(conntrack.delete_all(&filters), Ok(true), "{filters:?}");
        left.retain(|to| !gone.contains(&to.as_str()));
        let found = flows(&conntrack.udp(&all(Family::V4), |_| true).expect("a list"));
        assert_eq!(found.iter().map(|flow| flow.to.to_string()).collect::<Vec<_>>(), left, "{filters:?}");
    }
    assert_eq!(conntrack.udp(&all(Family::V6), |_| true).expect("a list").len(), 1);
}

#[test]
fn the_owner_of_an_address_is_found() {
    enter();
    run("ip route add local 198.51.100.0/24 dev lo");
    let mut networks = Socket::open().expect("a socket").local_networks(Family::V4).expect("a list");
    networks.sort();
    let texts = networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(texts, "10.88.0.5/32 127.0.0.0/8 127.0.0.1/32 192.0.2.1/32 192.0.2.2/32 198.51.100.0/24");
    run("ip route add blackhole 203.0.113.0/24");
    run("ip route add prohibit 203.0.114.0/24");
    run("ip -6 route add unreachable 2001:db8:9::/48");
    let mut socket = Socket::open().expect("a socket");
    let local = ["192.0.2.1", "127.0.0.1", "127.1.2.3", "198.51.100.7", "2001:db8::1", "::1"];
    let others = ["192.0.2.3", "203.0.113.1", "203.0.114.1", "255.255.255.255", "2001:db8::3", "2001:db8:9::1"];
    for (address, local) in
        local.map(|address| (address, true)).into_iter().chain(others.map(|address| (address, false)))
    {
        assert_eq!(socket.is_local(ip(address), None), Ok(local), "{address}");
    }
}
