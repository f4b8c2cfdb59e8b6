//! Connection tracking against the real kernel: what is listed, and what a deletion hits. Every test makes
//! a network namespace of its own, which ends with its thread; its one link is `lo`, with the addresses of
//! a host, of a client and of a container.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use cni_core::family::Family;
use cni_kernel::conntrack::{Conntrack, TrackedConnection};
use cni_kernel::netlink::Socket;
use cni_netfilter::flows::{Flow, FlowFilter};
use nix::sched::{CloneFlags, unshare};

const HOST: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
const CLIENT: [&str; 2] = ["192.0.2.2", "2001:db8::2"];
const CONTAINER: [&str; 2] = ["10.88.0.5", "fd00:88::5"];

/// Moves the thread into a new namespace in which port 8080 of the host leads to port 80 of the container.
fn enter() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    run("ip link set lo up");
    for [v4, v6] in [HOST, CLIENT, CONTAINER] {
        run(&format!("ip address add {v4}/32 dev lo"));
        run(&format!("ip address add {v6}/128 dev lo nodad"));
    }
    map(8080);
}

/// Lets a port of the host lead to the container.
fn map(port: u16) {
    Family::ALL.into_iter().for_each(|family| rule("-A", family, port));
}

fn rule(verb: &str, family: Family, port: u16) {
    let index = Family::ALL.iter().position(|one| *one == family).expect("one of both");
    let (program, host, to) = (family.iptables(), HOST[index], socket(CONTAINER[index], 80));
    run(&format!("{program} -t nat {verb} OUTPUT -d {host} -p udp --dport {port} -j DNAT --to-destination {to}"));
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
    let bound = UdpSocket::bind(socket(address, port)).expect("bound");
    bound.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    bound
}

fn all(family: Family) -> FlowFilter {
    FlowFilter { family, to: None, ports: Vec::new(), led_to: None }
}

fn flows(entries: &[TrackedConnection]) -> Vec<Flow> {
    let mut flows: Vec<Flow> = entries.iter().map(|entry| entry.flow).collect();
    flows.sort_by_key(|flow| flow.to);
    flows
}

#[test]
fn connections_are_listed_as_the_kernel_translates_them() {
    enter();
    for (index, family) in Family::ALL.into_iter().enumerate() {
        let client = bind(CLIENT[index], 4000);
        for port in [8080, 8081] {
            client.send_to(b"?", socket(HOST[index], port)).expect("sent");
        }
        let translated = Flow { to: socket(HOST[index], 8080), answered_by: socket(CONTAINER[index], 80) };
        let plain = Flow { to: socket(HOST[index], 8081), answered_by: socket(HOST[index], 8081) };
        let mut conntrack = Conntrack::open().expect("a socket");
        let mut list = |filter: FlowFilter| flows(&conntrack.udp(&filter, |_| true).expect("a list"));
        assert_eq!(list(all(family)), [translated, plain]);
        assert_eq!(list(FlowFilter { ports: vec![8080], ..all(family) }), [translated]);
        assert_eq!(list(FlowFilter { ports: vec![8082], ..all(family) }), []);
        assert_eq!(list(FlowFilter { led_to: Some(ip(CONTAINER[index])), ..all(family) }), [translated]);
        assert_eq!(list(FlowFilter { led_to: Some(ip(CLIENT[index])), ..all(family) }), []);
        let some = conntrack.udp(&all(family), |flow| flow.to.port() == 8081).expect("a list");
        assert_eq!(flows(&some), [plain]);
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
    let clients = CLIENT.map(|client| bind(client, 4000));
    for (client, host) in clients.iter().zip(HOST) {
        for port in 9000..9200 {
            client.send_to(b"?", socket(host, port)).expect("sent");
        }
        client.send_to(b"?", socket(host, 8080)).expect("sent");
    }
    clients[0].send_to(b"?", socket(CONTAINER[0], 9100)).expect("sent");
    clients[1].send_to(b"?", socket(CONTAINER[1], 9100)).expect("sent");
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
    for to in [HOST[0], CONTAINER[0]] {
        for port in [8079, 8080, 8081] {
            client.send_to(b"?", socket(to, port)).expect("sent");
        }
    }
    let of_ipv6 = bind(CLIENT[1], 4000);
    of_ipv6.send_to(b"?", socket(HOST[1], 8081)).expect("sent");
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
fn the_networks_of_the_host_are_reported() {
    enter();
    run("ip route add local 198.51.100.0/24 dev lo");
    let mut networks = Socket::open().expect("a socket").local_networks(Family::V4).expect("a list");
    networks.sort();
    let texts: Vec<String> = networks.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["10.88.0.5/32", "127.0.0.0/8", "127.0.0.1/32", "192.0.2.1/32", "192.0.2.2/32", "198.51.100.0/24"]
    );
}

#[test]
fn of_many_connections_exactly_those_that_are_named_are_deleted() {
    enter();
    let client = bind(CLIENT[0], 4000);
    for port in 9000..9500 {
        client.send_to(b"?", socket(HOST[0], port)).expect("sent");
    }
    let mut conntrack = Conntrack::open().expect("a socket");
    let odd = conntrack.udp(&all(Family::V4), |flow| flow.to.port() % 2 == 1).expect("a list");
    assert_eq!(odd.len(), 250);
    conntrack.delete(&odd[..100]).expect("deleted");
    conntrack.delete(&odd).expect("that some are gone is no error");
    let left = flows(&conntrack.udp(&all(Family::V4), |_| true).expect("a list"));
    let left: Vec<u16> = left.iter().map(|flow| flow.to.port()).collect();
    assert_eq!(left, (9000..9500).filter(|port| port % 2 == 0).collect::<Vec<_>>());
}

#[test]
fn a_deleted_connection_asks_the_rules_again_and_no_other_does() {
    enter();
    for (index, family) in Family::ALL.into_iter().enumerate() {
        let (host, client) = (bind(HOST[index], 8080), bind(CLIENT[index], 4000));
        let container = bind(CONTAINER[index], 80);
        rule("-A", family, 8081);
        let count = Cell::new(0_u8);
        let reaches = |to: u16, server: &UdpSocket| {
            count.set(count.get() + 1);
            client.send_to(&[count.get()], socket(HOST[index], to)).expect("sent");
            let mut last = [0];
            while server.recv(&mut last).is_ok() && last != [count.get()] {}
            last == [count.get()]
        };
        assert!(reaches(8080, &container) && reaches(8081, &container));
        rule("-D", family, 8080);
        assert!(reaches(8080, &container) && !reaches(8080, &host), "the kernel remembers");
        let mut conntrack = Conntrack::open().expect("a socket");
        let found = conntrack.udp(&FlowFilter { ports: vec![8080], ..all(family) }, |_| true).expect("a list");
        assert_eq!(found.len(), 1);
        conntrack.delete(&found).expect("deleted");
        assert!(reaches(8080, &host) && !reaches(8080, &container), "the rules are asked");
        assert!(reaches(8081, &container), "the other connection stays");
        conntrack.delete(&found).expect("that it is gone is no error");
        assert!(reaches(8080, &host), "a later connection between the same ends stays");
        let left = conntrack.udp(&all(family), |_| true).expect("a list");
        assert_eq!(left.iter().filter(|entry| entry.flow.to == socket(HOST[index], 8080)).count(), 1);
    }
}

#[test]
fn the_owner_of_an_address_is_found() {
    enter();
    run("ip route add local 198.51.100.0/24 dev lo");
    run("ip route add blackhole 203.0.113.0/24");
    run("ip route add prohibit 203.0.114.0/24");
    run("ip -6 route add unreachable 2001:db8:9::/48");
    let mut socket = Socket::open().expect("a socket");
    for (address, local) in [
        ("192.0.2.1", true),
        ("127.0.0.1", true),
        ("127.1.2.3", true),
        ("198.51.100.7", true),
        ("2001:db8::1", true),
        ("::1", true),
        ("192.0.2.3", false),
        ("203.0.113.1", false),
        ("203.0.114.1", false),
        ("255.255.255.255", false),
        ("2001:db8::3", false),
        ("2001:db8:9::1", false),
    ] {
        assert_eq!(socket.is_local(ip(address)), Ok(local), "{address}");
    }
}
