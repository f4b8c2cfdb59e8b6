//! What a mapping does not concern keeps the way it has, and the table is not read more than needed.

use std::net::{IpAddr, SocketAddr};

use cni_conformance::cases::for_each;
use cni_conformance::traffic::{Echo, Transport, crowd, tracked};
use cni_conformance::{Flavour, Invocation, Outside, PortMapping, Verb};

use crate::portmap::conntrack::setup::{ConntrackHost, PORT, UdpSenders, udp};

/// Connections that a rule of somebody else's has given another destination, where that rule is
/// gone by now: should the kernel forget them, nobody would answer.
struct OthersConnections {
    clients: UdpSenders,
    _server: Echo,
}

/// Where the host answers for others.
const ELSEWHERE: u16 = 9999;

impl OthersConnections {
    fn to(machine: &ConntrackHost, servers: &[SocketAddr]) -> Self {
        let host = SocketAddr::new(Outside::HOST_V4.into(), ELSEWHERE);
        let rules = |verb: &str| {
            for server in servers {
                let matches = format!("-d {} -p udp --dport {}", server.ip(), server.port());
                let rule = format!("{verb} PREROUTING {matches} -j DNAT --to-destination {host}");
                machine.sandbox.sh(&format!("iptables -t nat {rule}"));
            }
        };
        let server = machine.serve(ELSEWHERE);
        let clients = machine.clients_of(servers);
        rules("-I");
        clients.are_answered_by("the host");
        rules("-D");
        clients.are_answered_by("the host, without the rule");
        machine.clients_of(servers).are_not_answered();
        Self { clients, _server: server }
    }

    #[track_caller]
    fn stay(&self) {
        self.clients.are_answered_by("the program that was asked before");
    }
}

fn server(text: &str) -> SocketAddr {
    text.parse().expect("address and port")
}

/// The reference removes all connections to the port, whatever their address.
#[test]
fn a_mapping_of_one_address_leaves_the_same_port_of_other_addresses_alone() {
    let machine = ConntrackHost::new(Flavour::Nft);
    for address in ["192.0.2.200", "192.0.2.53"] {
        machine.sandbox.sh(&format!("ip address add {address}/24 dev {}", Outside::HOST_LINK));
    }
    machine.add("first", &[udp(PORT)]);
    let foreign = OthersConnections::to(&machine, &[server("192.0.2.53:53")]);
    let mapped = server("192.0.2.200:53");
    let stale = machine.clients_of(&[mapped]);
    stale.are_not_answered();
    let attached = machine.add("dns", &[udp(53).on("192.0.2.200")]);
    foreign.stay();
    stale.are_answered_by("the container");
    machine.del(&attached.attachment);
    foreign.stay();
    let _server = Echo::start(machine.sandbox.host(), Transport::Udp, mapped);
    stale.are_answered_by("the host");
}

/// A few ports in a crowd of connections, many in a crowd, and many in an empty table, for an address of the
/// host and for all. The reference walks through the table for each port.
#[test]
fn however_many_ports_there_are_their_clients_reach_the_container_and_the_others_keep_their_way() {
    let host = Outside::HOST_V4.to_string();
    let rows =
        [(3, true, None), (3, true, Some(&*host)), (40, true, None), (40, true, Some(&*host)), (40, false, None)];
    for_each(rows.map(|row| (format!("{row:?}"), row)), |(count, crowded, host)| {
        let machine = ConntrackHost::in_use(Flavour::Nft);
        // As many as fill an eighth of the table, which is looked through for each of three ports, but of forty not.
        let buckets: usize = machine.sandbox.sysctl("net/netfilter/nf_conntrack_buckets").parse().expect("a number");
        let others = if crowded { buckets / 8 } else { 0 };
        crowd(&machine.sandbox, others);
        let foreign = OthersConnections::to(&machine, &[SocketAddr::new(Outside::HOST_V4.into(), PORT + count)]);
        let ends = [PORT, PORT + count - 1];
        let hosts: Vec<IpAddr> = [Outside::HOST_V4.into(), Outside::HOST_V6.into()]
            .into_iter()
            .filter(|address: &IpAddr| host.is_none() || address.is_ipv4())
            .collect();
        let servers = ends.iter().flat_map(|port| hosts.iter().map(|address| SocketAddr::new(*address, *port)));
        let clients = machine.clients_of(&servers.collect::<Vec<_>>());
        clients.are_not_answered();
        let ports = (PORT..PORT + count).map(udp).map(|port| if let Some(host) = host { port.on(host) } else { port });
        let attached = machine.add("next", &ports.collect::<Vec<_>>());
        clients.are_answered_by("the container");
        foreign.stay();
        machine.del(&attached.attachment);
        let _servers = ends.map(|port| machine.serve(port));
        clients.are_answered_by("the host");
        foreign.stay();
        assert!(tracked(&machine.sandbox) >= others, "nothing of the crowd is missing");
    });
}

/// What passes the host on its way to the same port elsewhere is no connection to the host.
#[test]
fn a_mapping_of_every_address_leaves_connections_through_the_host_alone() {
    let machine = ConntrackHost::in_use(Flavour::Nft);
    machine.outside.sh(&format!("ip route add 198.51.100.0/24 via {}", Outside::HOST_V4));
    is_unchanged(&machine, &[server("198.51.100.53:53")], &[udp(53)]);
}

/// Nor is TCP's port UDP's, nor one port another.
#[test]
fn other_ports_and_protocols_are_unchanged() {
    let machine = ConntrackHost::in_use(Flavour::Nft);
    let host = |port| SocketAddr::new(Outside::HOST_V4.into(), port);
    let tcp = PortMapping { protocol: "tcp".to_owned(), ..udp(PORT) };
    is_unchanged(&machine, &[host(PORT), host(PORT + 2)], &[tcp, udp(PORT + 1)]);
}

/// Requires that connections to these servers outlast ADD and DEL of a container with these ports.
#[track_caller]
fn is_unchanged(machine: &ConntrackHost, servers: &[SocketAddr], ports: &[PortMapping]) {
    let foreign = OthersConnections::to(machine, servers);
    let attached = machine.add("guest", ports);
    foreign.stay();
    machine.del(&attached.attachment);
    foreign.stay();
}

/// A second container with the same port: the first in line keeps it, and its clients.
#[test]
fn a_container_that_comes_second_at_a_port_takes_no_client_from_the_first() {
    let machine = ConntrackHost::new(Flavour::Nft);
    let _first = machine.add("first", &[udp(PORT)]);
    let clients = machine.clients(PORT);
    clients.are_answered_by("the first container");
    let second = machine.add("second", &[udp(PORT)]);
    machine.del(&second.attachment);
    clients.are_answered_by("the first container");
}

/// The kernel deletes connections of IPv4 without listing any, unless there are many. Those of IPv6 are listed
/// once, however many ports there are. The reference lists both families for every port.
#[test]
fn one_listing_serves_all_ports() {
    let machine = ConntrackHost::new(Flavour::Nft);
    let attached = machine.attached("guest", &[udp(PORT), udp(PORT + 1), udp(PORT + 2)]);
    let runtime = machine.runtime();
    let result = runtime.invocation(Verb::Add, "bridge", &attached.attachment, None).run().result();
    // An empty table would not be listed at all.
    crowd(&machine.sandbox, 100);
    for verb in [Verb::Add, Verb::Del] {
        let listings = listings(&runtime.invocation(verb, "portmap", &attached.attachment, Some(&result)));
        let [listing] = &listings[..] else { panic!("{verb}: {listings:#?}") };
        assert!(listing.contains("nfgen_family=AF_INET6"), "{verb}: {listing}");
    }
}

/// Runs a plugin, and returns its requests to list the connections of a family.
fn listings(invocation: &Invocation) -> Vec<String> {
    const TRACE: &str = "/run/conformance/sent";
    let strace = ["/usr/bin/strace", "-f", "-qq", "-o", TRACE, "-e", "trace=sendto,sendmsg", "-e", "signal=none"];
    invocation.clone().launched_by(&strace).run().expect_success();
    let sent = std::fs::read_to_string(TRACE).expect("read what was sent");
    sent.lines().filter(|line| line.contains("IPCTNL_MSG_CT_GET")).map(str::to_owned).collect()
}
