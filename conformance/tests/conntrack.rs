//! UDP clients that keep their port are not sent to containers that are no more.
//!
//! The kernel asks the rules for the first packet of a connection alone, and UDP knows no end of
//! one. What must be forgotten is what leads elsewhere by exactly the affected mappings: by
//! protocol, port and address of the host. Anything else keeps the way it has, which shows in
//! connections whose own rule is gone. Clients hold one socket each, so they keep their port.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::traffic::{Echo, Transport, crowd, tracked};
use cni_conformance::{
    Attachment, Chain, Container, Flavour, Invocation, Namespace, Nomad, Outside, PortMapping, Runtime, Sandbox,
    Spelling, Verb,
};

/// Where containers serve.
const SERVICE: u16 = 53;

/// The host port that leads to them.
const PORT: u16 = 5300;

/// A host with an uplink, and clients outside that have sent to it, one for each address.
struct World {
    outside: Outside,
    sandbox: Sandbox,
}

/// A socket outside, and where it sends to.
struct Client {
    socket: UdpSocket,
    server: SocketAddr,
}

/// A container that serves.
struct Guest {
    attachment: Attachment,
    container: Container,
    server: Echo,
}

fn nomad() -> Nomad {
    Nomad::default().dual_stack()
}

impl World {
    fn new(flavour: Flavour) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        let outside = sandbox.outside();
        nomad().ensure_forwarding_rules(&sandbox);
        Self { outside, sandbox }
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, nomad().conflist())
    }

    /// Describes a container with these ports, and lets it serve.
    fn guest(&self, name: &str, ports: &[PortMapping]) -> Guest {
        let container = self.sandbox.container(name);
        let attachment = Attachment::new(name, &container).ports(ports, Spelling::Go);
        let server = serve(&container, SERVICE);
        Guest { attachment, container, server }
    }

    fn add(&self, guest: &mut Guest) -> Chain {
        let chain = self.runtime().add(&mut guest.attachment);
        chain.expect_success();
        chain
    }

    /// Clients of one port of the host, by its two addresses on the uplink.
    fn clients(&self, port: u16) -> [Client; 2] {
        [Outside::HOST_V4.into(), Outside::HOST_V6.into()].map(|host| self.client(host, port))
    }

    fn client(&self, host: IpAddr, port: u16) -> Client {
        client(&self.outside, SocketAddr::new(host, port))
    }
}

fn client(from: &Namespace, server: SocketAddr) -> Client {
    let own: IpAddr = if server.is_ipv4() { Outside::V4.into() } else { Outside::V6.into() };
    let socket = from.run(|| UdpSocket::bind((own, 0))).expect("bound");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    Client { socket, server }
}

impl Client {
    /// Sends until an answer comes, which takes a moment where a neighbour has to be found first.
    #[track_caller]
    fn is_answered_by(&self, whom: &str) {
        assert!((0..30).any(|_| self.try_once()), "{} must be answered by {whom}", self.server);
        // Earlier tries may be answered as well, and must not be taken for answers to later ones.
        while self.socket.recv(&mut [0; 64]).is_ok() {}
    }

    /// Sends often enough for an answer.
    #[track_caller]
    fn is_not_answered(&self) {
        assert!(!(0..4).any(|_| self.try_once()), "{} must not be answered", self.server);
    }

    /// The host may say that nobody listens there; the next try shows whether that lasts.
    fn try_once(&self) -> bool {
        self.socket.send_to(b"?", self.server).is_ok() && self.socket.recv(&mut [0; 64]).is_ok()
    }
}

/// Serves UDP on all addresses of both families.
fn serve(namespace: &Namespace, port: u16) -> Echo {
    Echo::start(namespace, Transport::Udp, SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), port))
}

fn udp(port: u16) -> PortMapping {
    PortMapping::new(port, SERVICE, "udp")
}

#[test]
fn what_was_sent_before_add_does_not_keep_a_client_from_the_container() {
    for flavour in Flavour::ALL {
        let world = World::new(flavour);
        world.add(&mut world.guest("first", &[]));
        let clients = world.clients(PORT);
        for client in &clients {
            client.is_not_answered();
        }
        let mut guest = world.guest("next", &[udp(PORT)]);
        world.add(&mut guest);
        for client in &clients {
            client.is_answered_by(&format!("the next container ({flavour:?})"));
        }
        drop(guest.server);
    }
}

/// The reference forgets nothing on DEL, so the host's own server gets no packet of such a client
/// for as long as it keeps sending.
#[test]
fn after_del_a_server_of_the_host_gets_the_packets_of_clients_that_keep_their_port() {
    let requests = |attachment: &Attachment| {
        [
            ("all that ADD knew", attachment.clone()),
            ("no result", attachment.clone().without_result()),
            ("no ports", attachment.clone().without_capabilities()),
            ("neither", attachment.clone().without_result().without_capabilities()),
            ("no namespace", attachment.clone().netns("")),
        ]
    };
    let rows = (0..5).map(|request| (Flavour::Nft, request)).chain([(Flavour::Legacy, 0), (Flavour::Legacy, 3)]);
    for_each(rows.map(|row| (format!("{row:?}"), row)), |(flavour, request)| {
        let world = World::new(flavour);
        let mut guest = world.guest("gone", &[udp(PORT), udp(PORT + 1)]);
        world.add(&mut guest);
        let clients = [PORT, PORT + 1].map(|port| (port, world.clients(port)));
        for client in clients.iter().flat_map(|(_, clients)| clients) {
            client.is_answered_by("the container");
        }
        let (what, del) = &requests(&guest.attachment)[request];
        world.runtime().del(del).expect_success();
        let servers = [PORT, PORT + 1].map(|port| serve(world.sandbox.host(), port));
        for client in clients.iter().flat_map(|(_, clients)| clients) {
            client.is_answered_by(&format!("the host, after DEL with {what}"));
        }
        drop((servers, guest.server));
    });
}

#[test]
fn a_client_that_keeps_its_port_reaches_the_next_container() {
    for flavour in Flavour::ALL {
        let world = World::new(flavour);
        let mut first = world.guest("first", &[udp(PORT)]);
        world.add(&mut first);
        let clients = world.clients(PORT);
        for client in &clients {
            client.is_answered_by("the first container");
        }
        world.runtime().del(&first.attachment).expect_success();
        drop(first.server);
        first.container.remove();
        for client in &clients {
            client.is_not_answered();
        }
        let mut next = world.guest("next", &[udp(PORT)]);
        world.add(&mut next);
        for client in &clients {
            client.is_answered_by(&format!("the next container ({flavour:?})"));
        }
        drop(next.server);
    }
}

/// A container that is gone without DEL, and its successor at the same port.
#[test]
fn gc_forgets_what_leads_to_a_lost_container() {
    let world = World::new(Flavour::Nft);
    let list = Nomad::version("1.1.0").dual_stack().conflist();
    let runtime = Runtime::new(&world.sandbox, list);
    let mut lost = world.guest("lost", &[udp(PORT)]);
    runtime.add(&mut lost.attachment).expect_success();
    let clients = world.clients(PORT);
    for client in &clients {
        client.is_answered_by("the first container");
    }
    runtime.gc(&[]).expect_success();
    let server = serve(world.sandbox.host(), PORT);
    for client in &clients {
        client.is_answered_by("the host");
    }
    drop((server, lost.server));
}

/// Connections that a rule of somebody else's has given another destination, where that rule is
/// gone by now: should the kernel forget them, nobody would answer.
struct Foreign {
    clients: Vec<Client>,
    _server: Echo,
}

/// Where the host answers for others.
const ELSEWHERE: u16 = 9999;

impl Foreign {
    fn to(world: &World, servers: &[SocketAddr]) -> Self {
        let host = SocketAddr::new(Outside::HOST_V4.into(), ELSEWHERE);
        let rule = |verb: &str, server: &SocketAddr| {
            let (address, port) = (server.ip(), server.port());
            let matches = format!("-d {address} -p udp --dport {port}");
            world.sandbox.sh(&format!("iptables -t nat {verb} PREROUTING {matches} -j DNAT --to-destination {host}"));
        };
        let server = serve(world.sandbox.host(), ELSEWHERE);
        let clients: Vec<Client> = servers.iter().map(|server| client(&world.outside, *server)).collect();
        for (client, server) in clients.iter().zip(servers) {
            rule("-I", server);
            client.is_answered_by("the host");
            rule("-D", server);
            client.is_answered_by("the host, without the rule");
            self::client(&world.outside, *server).is_not_answered();
        }
        Self { clients, _server: server }
    }

    #[track_caller]
    fn stay(&self) {
        for client in &self.clients {
            client.is_answered_by("whoever was asked before");
        }
    }
}

/// The reference removes all connections to the port, whatever their address.
#[test]
fn a_mapping_of_one_address_leaves_the_same_port_of_other_addresses_alone() {
    let world = World::new(Flavour::Nft);
    for address in ["192.0.2.200", "192.0.2.53"] {
        world.sandbox.sh(&format!("ip address add {address}/24 dev {}", Outside::HOST_LINK));
    }
    world.add(&mut world.guest("first", &[udp(PORT)]));
    let foreign = Foreign::to(&world, &["192.0.2.53:53".parse().expect("address and port")]);
    let stale = world.client("192.0.2.200".parse().expect("an address"), 53);
    stale.is_not_answered();
    let mut guest = world.guest("dns", &[udp(53).on("192.0.2.200")]);
    world.add(&mut guest);
    foreign.stay();
    stale.is_answered_by("the container");
    world.runtime().del(&guest.attachment).expect_success();
    foreign.stay();
    let server = Echo::start(world.sandbox.host(), Transport::Udp, stale.server);
    stale.is_answered_by("the host");
    drop((server, guest.server));
}

/// A few ports in a crowd of connections, many in a crowd, and many in an empty table, for an address of the
/// host and for all. The reference walks through the table for each port.
#[test]
fn however_many_ports_there_are_their_clients_reach_the_container_and_the_others_keep_their_way() {
    let host = Outside::HOST_V4.to_string();
    let rows =
        [(3, true, None), (3, true, Some(&*host)), (40, true, None), (40, true, Some(&*host)), (40, false, None)];
    for_each(rows.map(|row| (format!("{row:?}"), row)), |(count, crowded, host)| {
        let world = World::new(Flavour::Nft);
        world.add(&mut world.guest("first", &[]));
        // As many as fill an eighth of the table, which is looked through for each of three ports, but of forty not.
        let buckets: usize = world.sandbox.sysctl("net/netfilter/nf_conntrack_buckets").parse().expect("a number");
        let others = if crowded { buckets / 8 } else { 0 };
        crowd(&world.sandbox, others);
        let foreign = Foreign::to(&world, &[SocketAddr::new(Outside::HOST_V4.into(), PORT + count)]);
        let clients = [PORT, PORT + count - 1].map(|port| world.clients(port));
        let clients: Vec<&Client> =
            clients.iter().flatten().filter(|client| host.is_none() || client.server.is_ipv4()).collect();
        clients.iter().for_each(|client| client.is_not_answered());
        let ports = (PORT..PORT + count).map(udp).map(|port| if let Some(host) = host { port.on(host) } else { port });
        let mut guest = world.guest("next", &ports.collect::<Vec<_>>());
        world.add(&mut guest);
        clients.iter().for_each(|client| client.is_answered_by("the container"));
        foreign.stay();
        world.runtime().del(&guest.attachment).expect_success();
        let servers = [PORT, PORT + count - 1].map(|port| serve(world.sandbox.host(), port));
        clients.iter().for_each(|client| client.is_answered_by("the host"));
        foreign.stay();
        assert!(tracked(&world.sandbox) >= others, "nothing of the crowd is missing");
        drop((servers, guest.server));
    });
}

/// What passes the host on its way to the same port elsewhere is no connection to the host.
#[test]
fn a_mapping_of_every_address_leaves_connections_through_the_host_alone() {
    let world = World::new(Flavour::Nft);
    world.add(&mut world.guest("first", &[]));
    world.outside.sh(&format!("ip route add 198.51.100.0/24 via {}", Outside::HOST_V4));
    let foreign = Foreign::to(&world, &["198.51.100.53:53".parse().expect("address and port")]);
    let mut guest = world.guest("dns", &[udp(53)]);
    world.add(&mut guest);
    foreign.stay();
    world.runtime().del(&guest.attachment).expect_success();
    foreign.stay();
    drop(guest.server);
}

/// Nor is TCP's port UDP's, nor one port another.
#[test]
fn other_ports_and_protocols_are_left_alone() {
    let world = World::new(Flavour::Nft);
    world.add(&mut world.guest("first", &[]));
    let host = |port| SocketAddr::new(Outside::HOST_V4.into(), port);
    let foreign = Foreign::to(&world, &[host(PORT), host(PORT + 2)]);
    let mut guest = world.guest("tcp", &[PortMapping::new(PORT, SERVICE, "tcp"), udp(PORT + 1)]);
    world.add(&mut guest);
    foreign.stay();
    world.runtime().del(&guest.attachment).expect_success();
    foreign.stay();
    drop(guest.server);
}

/// The table may be long: of each family it is listed once, however many ports there are. The reference
/// lists it for every port.
#[test]
fn one_listing_serves_all_ports() {
    let world = World::new(Flavour::Nft);
    let ports = [udp(PORT), udp(PORT + 1), udp(PORT + 2)];
    let guest = world.guest("guest", &ports);
    let runtime = world.runtime();
    let result = runtime.invocation(Verb::Add, "bridge", &guest.attachment, None).run().result();
    for verb in [Verb::Add, Verb::Del] {
        let listings = listings(&runtime.invocation(verb, "portmap", &guest.attachment, Some(&result)));
        assert_eq!(listings.len(), 2, "{verb}: {listings:#?}");
    }
}

/// Runs a plugin, and returns its requests for all connections of a family.
fn listings(invocation: &Invocation) -> Vec<String> {
    const TRACE: &str = "/run/conformance/sent";
    let strace = ["/usr/bin/strace", "-f", "-qq", "-o", TRACE, "-e", "trace=sendto,sendmsg", "-e", "signal=none"];
    invocation.clone().launched_by(&strace).run().expect_success();
    let sent = std::fs::read_to_string(TRACE).expect("read what was sent");
    sent.lines().filter(|line| line.contains("IPCTNL_MSG_CT_GET")).map(str::to_owned).collect()
}

/// A second container with the same port: the first in line keeps it, and its clients.
#[test]
fn a_container_that_comes_second_at_a_port_takes_no_client_from_the_first() {
    let world = World::new(Flavour::Nft);
    let mut first = world.guest("first", &[udp(PORT)]);
    world.add(&mut first);
    let clients = world.clients(PORT);
    for client in &clients {
        client.is_answered_by("the first container");
    }
    let mut second = world.guest("second", &[udp(PORT)]);
    world.add(&mut second);
    world.runtime().del(&second.attachment).expect_success();
    for client in &clients {
        client.is_answered_by("the first container");
    }
    drop((first.server, second.server));
}
