//! Two containers that live: the older one keeps the port until its DEL, and then the newer one has it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use cni_conformance::traffic::{Echo, Transport, ask};
use cni_conformance::{Outside, PortMapping, Verb, at_once};

use crate::portmap::contested_ports::{ContestedHost, Engine, PORT, PublishedContainer, SERVICE, localhost};

/// The newer one's ADD changes nothing for the older one, and the older one's DEL gives the port to the newer one.
fn the_port_of_two(engine: Engine) {
    let machine = ContestedHost::new(engine);
    let old = machine.run("old");
    let mut new = machine.published("new", &PortMapping::twins(PORT, SERVICE));
    let added = machine.add(&mut new);
    machine.leads_to(&old);
    let warning = added.step("portmap").stderr();
    assert!(warning.contains("container old (network nomad") && warning.contains("tcp 0.0.0.0:8080"), "{warning}");
    for published in [&old, &new] {
        machine.runtime().check(&published.attachment).expect_success();
    }
    machine.del(&new);
    machine.leads_to(&old);
    machine.add(&mut new);
    machine.leads_to(&old);
    machine.add_portmap(&old);
    machine.leads_to(&old);
    machine.del(&old);
    machine.leads_to(&new);
    assert!(machine.records().contains("/ports/8080"), "the record is the newer one's");
    machine.runtime().check(&new.attachment).expect_success();
    machine.del(&new);
    assert_eq!((machine.entries(), machine.records().as_str()), (vec![], ""), "{engine:?}");
}

#[test]
fn the_older_of_two_keeps_the_port_until_its_del_on_nft_iptables() {
    the_port_of_two(Engine::IptablesNft);
}

#[test]
fn the_older_of_two_keeps_the_port_until_its_del_on_legacy_iptables() {
    the_port_of_two(Engine::IptablesLegacy);
}

#[test]
fn the_older_of_two_keeps_the_port_until_its_del_in_nftables() {
    the_port_of_two(Engine::Nftables);
}

/// A client that sends all its datagrams from one port, so that they belong to one connection.
struct UdpClient(UdpSocket);

impl UdpClient {
    fn new(machine: &ContestedHost, server: SocketAddr) -> Self {
        let any: IpAddr = if server.is_ipv4() { "0.0.0.0" } else { "::" }.parse().expect("an address");
        let socket = machine.outside.run(|| UdpSocket::bind((any, 0))).expect("bind a port");
        socket.connect(server).expect("connect");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("set a time limit");
        Self(socket)
    }

    /// Sends until there is an answer.
    fn ask(&self) -> io::Result<()> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match self.0.send(b"?").and_then(|_| self.0.recv(&mut [0; 128])) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > end => return Err(error),
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {}
                // The container has no server at the moment, and said so.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[test]
fn the_next_packet_of_a_udp_connection_goes_to_the_newer_one_after_the_del_of_the_older_one() {
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let old = machine.run("old");
        let servers = Echo::everywhere(&old.container, SERVICE);
        let clients = ContestedHost::hosts().map(|host| UdpClient::new(&machine, SocketAddr::new(host, PORT)));
        let ask = |name: &str| {
            for (one, host) in clients.iter().zip(ContestedHost::hosts()) {
                one.ask().unwrap_or_else(|error| panic!("{engine:?}: {name} at {host}: {error}"));
            }
        };
        ask("old");
        let new = machine.run("new");
        ask("old, with a newer one");
        drop(servers);
        let _servers = Echo::everywhere(&new.container, SERVICE);
        machine.del(&old);
        ask("new");
    }
}

/// The path to its namespace is gone, as it is for a plugin in another mount namespace.
#[test]
fn a_container_that_lives_keeps_its_port_though_its_path_is_not_visible() {
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let old = machine.run("old");
        let _servers = Echo::everywhere(&old.container, SERVICE);
        old.container.unmount();
        let _new = machine.run("new");
        for host in ContestedHost::hosts() {
            let answer = ask(&machine.outside, Transport::Tcp, SocketAddr::new(host, PORT));
            assert!(answer.is_ok(), "{engine:?}: {host}: {answer:?}");
        }
    }
}

/// A mapping of one address and one of all addresses meet at that address only.
#[test]
fn one_address_and_every_address_are_in_conflict_there_only() {
    let one = [PortMapping::new(PORT, SERVICE, "tcp").on(&Outside::HOST_V4.to_string())];
    let all = [PortMapping::new(PORT, SERVICE, "tcp")];
    let contested = Outside::HOST_V4.into();
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let [mut wide, mut narrow] = [machine.published("wide", &all), machine.published("narrow", &one)];
        machine.add(&mut wide);
        let warned = machine.add(&mut narrow);
        assert!(warned.step("portmap").stderr().contains("container wide "), "{engine:?}");
        machine.reaches(&wide, contested);
        machine.del(&wide);
        machine.reaches(&narrow, contested);
        machine.misses(&narrow, localhost());
        machine.add(&mut wide);
        machine.reaches(&narrow, contested);
        machine.reaches(&wide, localhost());
        machine.reaches(&wide, Outside::HOST_V6.into());
        machine.del(&narrow);
        machine.reaches(&wide, contested);
    }
}

/// In the absence of a conflict the order is that of the ADDs, and nobody is warned.
#[test]
fn without_a_conflict_the_order_is_that_of_the_adds() {
    let mapping = |port, proto: &str, ip: &str| PortMapping::new(port, SERVICE, proto).on(ip);
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let pairs = [
            (mapping(PORT, "tcp", ""), mapping(PORT, "udp", "")),
            (mapping(81, "tcp", "192.0.2.201"), mapping(81, "tcp", "192.0.2.202")),
            (mapping(82, "sctp", "0.0.0.0"), mapping(82, "sctp", "::")),
        ];
        let mut names = Vec::new();
        for (number, (one, other)) in pairs.into_iter().enumerate() {
            for (letter, mapping) in [("a", one), ("b", other)] {
                let name = format!("{letter}{number}");
                let mut published = machine.published(&name, &[mapping]);
                assert_eq!(machine.add(&mut published).step("portmap").stderr(), "", "{engine:?}: {name}");
                names.push(name);
            }
        }
        let entries = machine.entries();
        let places: Vec<usize> = names
            .iter()
            .filter_map(|name| {
                entries
                    .iter()
                    .position(|line| line.contains(&format!("{name}\\\"")) || line.contains(&format!("\"{name}\"")))
            })
            .collect();
        assert!(places.len() >= 5 && places.is_sorted_by_key(|place| *place), "{engine:?}: {entries:#?}");
    }
}

#[test]
fn a_second_add_of_the_same_attachment_is_no_conflict() {
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let published = machine.run("one");
        let (before, records) = (machine.entries(), machine.records());
        assert_eq!(machine.add_portmap(&published).stderr(), "", "{engine:?}");
        assert_eq!((machine.entries(), machine.records()), (before, records), "{engine:?}");
        machine.leads_to(&published);
    }
}

/// All at once: each has its rules once, and the records are whole, so that nothing is left of them in the end.
#[test]
fn those_that_come_and_go_at_the_same_time_are_all_recorded() {
    for engine in Engine::ALL {
        let mut machine = ContestedHost::new(engine);
        let whole = machine.list.clone();
        machine.list["plugins"].as_array_mut().expect("plugins").retain(|plugin| plugin["type"] != "portmap");
        let mut tasks: Vec<PublishedContainer> =
            (0..6).map(|number| machine.published(&format!("t{number}"), &PortMapping::twins(PORT, SERVICE))).collect();
        tasks.iter_mut().for_each(|published| drop(machine.add(published)));
        machine.list = whole;
        let everybody = |verb| {
            let runtime = machine.runtime();
            let call = |published: &PublishedContainer| {
                runtime.invocation(verb, "portmap", &published.attachment, published.attachment.result.as_ref())
            };
            at_once(&tasks.iter().map(call).collect::<Vec<_>>())
        };
        everybody(Verb::Add).iter().for_each(|outcome| drop(outcome.result()));
        for published in &tasks {
            // A rule for each protocol and family.
            assert_eq!(machine.traces(published.container.name()).len(), 4, "{engine:?}");
        }
        everybody(Verb::Del).iter().for_each(|outcome| assert!(outcome.expect_success().succeeded()));
        assert_eq!((machine.entries(), machine.records().as_str()), (vec![], ""), "{engine:?}");
    }
}
