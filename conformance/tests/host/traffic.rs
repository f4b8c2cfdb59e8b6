//! What containers, the host and the outside reach, and under which source address.
//!
//! The network is Nomad's, the policy of FORWARD is DROP in both families, and Nomad's own ACCEPT
//! is in its admin chain, as on a host that also runs Docker. Every answer is asked for by
//! TCP and by UDP. The sources that servers see are the reference's: operators write firewalls
//! by them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni_conformance::cases::one_of_three_within;
use cni_conformance::nomad::{GATEWAY_V4, GATEWAY_V6, SUBNET_V6};
use cni_conformance::traffic::{Capture, Echo, Packet, Transport, ask, ask_within, ping, ping_until_answered};
use cni_conformance::{
    Attachment, Container, Flavour, Hairpin, Namespace, Network, Nomad, Outside, PortMapping, Runtime, Sandbox,
    Spelling, Subnets,
};

/// Where every container serves, and where the outside and the host serve.
const SERVICE: u16 = 80;
/// The host ports of the two containers.
const PORT_A: u16 = 8080;
const PORT_B: u16 = 8081;
/// How long to wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(400);
/// Less than the kernel needs to make sure that nobody else has an address, which takes a second and more.
const AT_ONCE: Duration = Duration::from_millis(800);

/// Two containers on a Nomad client, and the outside.
struct TrafficHost {
    servers: Vec<Echo>,
    a: Container,
    b: Container,
    outside: Outside,
    families: Vec<FamilyAddresses>,
    sandbox: Sandbox,
}

/// The addresses of one family.
#[derive(Debug, Clone, Copy)]
struct FamilyAddresses {
    a: IpAddr,
    b: IpAddr,
    gateway: IpAddr,
    host: IpAddr,
    outside: IpAddr,
}

impl TrafficHost {
    fn new(nomad: &Nomad) -> Self {
        Self::with_flavour(nomad, Flavour::Nft)
    }

    fn with_flavour(nomad: &Nomad, flavour: Flavour) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        let outside = sandbox.outside();
        sandbox.sh("iptables -P FORWARD DROP");
        sandbox.sh("ip6tables -P FORWARD DROP");
        nomad.ensure_forwarding_rules(&sandbox);
        let [a, b] = [("a", PORT_A), ("b", PORT_B)].map(|(name, port)| {
            let container = sandbox.container(name);
            let ports = PortMapping::twins(port, SERVICE);
            let mut attachment = Attachment::new(name, &container).ports(&ports, Spelling::Go);
            Runtime::new(&sandbox, nomad.conflist()).add(&mut attachment).expect_success();
            container
        });
        let spaces: [&Namespace; 4] = [&a, &b, &outside, sandbox.host()];
        let servers = spaces.into_iter().flat_map(|space| Echo::everywhere(space, SERVICE)).collect();
        Self { servers, a, b, outside, families: families(nomad.subnets), sandbox }
    }

    /// Runs a check for each family, whether bridged packets pass iptables (`bridge-nf-call-iptables`) or not.
    fn with_and_without_bridge_filtering(&self, check: impl Fn(&FamilyAddresses)) {
        for on in [false, true] {
            self.sandbox.set_bridge_filtering(on);
            self.families.iter().for_each(&check);
        }
    }

    /// Requires that the server saw the client come from `source`, by TCP and by UDP.
    #[track_caller]
    fn reaches(&self, from: &Namespace, to: IpAddr, port: u16, source: IpAddr) {
        assert!(!self.servers.is_empty(), "nothing serves");
        for transport in Transport::ALL {
            let server = SocketAddr::new(to, port);
            let seen = ask(from, transport, server)
                .unwrap_or_else(|error| panic!("{} to {transport} {server}: {error}", from.name()));
            assert_eq!(seen.ip(), source, "source seen by {transport} {server}, asked from {}", from.name());
        }
    }

    /// Requires that no answer comes, by TCP or by UDP.
    #[track_caller]
    fn misses(&self, from: &Namespace, to: IpAddr, port: u16) {
        for transport in Transport::ALL {
            let server = SocketAddr::new(to, port);
            let answer = ask_within(from, transport, server, SILENCE);
            assert!(answer.is_err(), "{} to {transport} {server} was answered: {answer:?}", from.name());
        }
    }
}

fn families(subnets: Subnets) -> Vec<FamilyAddresses> {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let v4 = FamilyAddresses {
        a: ip("172.26.64.2"),
        b: ip("172.26.64.3"),
        gateway: ip(GATEWAY_V4),
        host: Outside::HOST_V4.into(),
        outside: Outside::V4.into(),
    };
    let v6 = FamilyAddresses {
        a: ip("fd00:a110:c8::2"),
        b: ip("fd00:a110:c8::3"),
        gateway: ip(GATEWAY_V6),
        host: Outside::HOST_V6.into(),
        outside: Outside::V6.into(),
    };
    match subnets {
        Subnets::V4 => vec![v4],
        Subnets::V4AndV6 => vec![v4, v6],
    }
}

fn dual_stack() -> Nomad {
    Nomad::default().dual_stack()
}

/// Within a second of ADD; with Go the IPv6 gateway is deaf for longer, see below.
#[test]
fn containers_reach_their_gateway() {
    let machine = TrafficHost::new(&dual_stack());
    for family in &machine.families {
        assert!(ping(&machine.a, family.gateway, Duration::from_secs(20)), "{} must answer", family.gateway);
        machine.reaches(&machine.a, family.gateway, SERVICE, family.a);
        assert!(ping(machine.sandbox.host(), family.a, Duration::from_secs(20)), "{} must answer", family.a);
        machine.reaches(machine.sandbox.host(), family.a, SERVICE, family.gateway);
    }
}

/// Those who have just spoken with the address's earlier owner know that one's MAC address, and would send to it for half a minute.
#[test]
fn a_container_with_the_address_of_an_earlier_one_is_reached_at_once() {
    let nomad = dual_stack();
    let machine = TrafficHost::new(&nomad);
    // Here ip6tables would drop what is announced before the plugin firewall accepts the address.
    machine.sandbox.set_bridge_filtering(false);
    let askers: [&Namespace; 2] = [&machine.a, machine.sandbox.host()];
    let runtime = Runtime::new(&machine.sandbox, nomad.conflist());
    for turn in 0..3 {
        let name = format!("heir{turn}");
        let container = machine.sandbox.container(&name);
        let mut attachment = Attachment::new(&name, &container);
        // As if all other addresses had been given out meanwhile.
        machine.sandbox.sh("rm -f /run/cni/nomad/last_reserved_ip.0 /run/cni/nomad/last_reserved_ip.1");
        runtime.add(&mut attachment).expect_success();
        for address in ["172.26.64.4", "fd00:a110:c8::4"].map(|text| text.parse().expect("an address")) {
            for from in askers {
                assert!(ping(from, address, Duration::from_secs(20)), "turn {turn}, {} to {address}", from.name());
            }
        }
        runtime.del(&attachment).expect_success();
        container.remove();
    }
}

/// Go leaves duplicate address detection to run on the bridge, so the gateway is deaf for some
/// two seconds after the first ADD.
#[test]
fn the_ipv6_gateway_answers_at_once_after_the_first_add() {
    one_of_three_within(AT_ONCE, || {
        let sandbox = Sandbox::new();
        let container = sandbox.container("first");
        let runtime = Runtime::new(&sandbox, dual_stack().conflist());
        runtime.add(&mut Attachment::new("first", &container)).expect_success();
        let gateway: IpAddr = GATEWAY_V6.parse().expect("an address");
        let took = ping_until_answered(&container, gateway, Duration::from_secs(20));
        let addresses = Network::observe(sandbox.host()).addresses;
        let of_bridge = addresses.iter().find(|address| address.ip == gateway).expect("the gateway's address");
        assert!(!of_bridge.tentative, "{of_bridge:?}");
        took
    });
}

/// Packets wait with the reference until the kernel is sure of the new bridge's link-local address.
#[test]
fn a_new_bridge_forwards_ipv6_at_once_after_the_first_add() {
    one_of_three_within(AT_ONCE, || {
        let sandbox = Sandbox::new();
        let outside = sandbox.outside();
        let nomad = dual_stack();
        outside.route_to(SUBNET_V6);
        let runtime = Runtime::new(&sandbox, nomad.conflist());
        nomad.ensure_forwarding_rules(&sandbox);
        // The outside knows the way to the host before the clock starts.
        ping_until_answered(&outside, Outside::HOST_V6.into(), Duration::from_secs(20));
        let container = sandbox.container("first");
        let mut attachment = Attachment::new("first", &container);
        let result = runtime.add(&mut attachment).result().clone();
        let ips = result["ips"].as_array().expect("addresses").iter();
        let mut ips = ips.filter_map(|ip| ip["address"].as_str()?.split('/').next()?.parse().ok());
        let address = ips.find(IpAddr::is_ipv6).expect("an IPv6 address");
        ping_until_answered(&outside, address, Duration::from_secs(20))
    });
}

#[test]
fn containers_reach_each_other_under_their_own_addresses() {
    let machine = TrafficHost::new(&dual_stack());
    machine.with_and_without_bridge_filtering(|family| {
        machine.reaches(&machine.a, family.b, SERVICE, family.a);
        machine.reaches(&machine.b, family.a, SERVICE, family.b);
    });
}

#[test]
fn containers_reach_the_outside_under_the_hosts_address() {
    for flavour in Flavour::ALL {
        let machine = TrafficHost::with_flavour(&dual_stack(), flavour);
        let capture = Capture::start(&machine.outside, Outside::LINK);
        for family in &machine.families {
            machine.reaches(&machine.a, family.outside, SERVICE, family.host);
            assert!(ping(&machine.b, family.outside, Duration::from_secs(20)), "{} must answer", family.outside);
        }
        let packets = capture.stop();
        for family in &machine.families {
            let of_container = |packet: &&Packet| [family.a, family.b].contains(&packet.source.ip());
            assert_eq!(packets.iter().find(of_container), None, "a container's address on the wire");
            let masqueraded = |packet: &Packet| packet.source.ip() == family.host;
            assert!(packets.iter().any(masqueraded), "packets of {} on the wire", family.host);
        }
    }
}

#[test]
fn the_outside_reaches_a_host_port_under_its_own_address() {
    for flavour in Flavour::ALL {
        let machine = TrafficHost::with_flavour(&dual_stack(), flavour);
        for family in &machine.families {
            machine.reaches(&machine.outside, family.host, PORT_A, family.outside);
            machine.reaches(&machine.outside, family.host, PORT_B, family.outside);
        }
    }
}

#[test]
fn the_outside_reaches_no_port_that_is_not_mapped() {
    let machine = TrafficHost::new(&dual_stack());
    for family in &machine.families {
        machine.misses(&machine.outside, family.host, PORT_A + 100);
    }
}

/// Without the rule of the admin chain nothing new comes in, so that rule it is that counts.
#[test]
fn the_admin_chain_decides_what_comes_in() {
    let machine = TrafficHost::new(&dual_stack());
    for program in ["iptables", "ip6tables"] {
        machine.sandbox.sh(&format!("{program} -F NOMAD-ADMIN"));
    }
    for family in &machine.families {
        machine.misses(&machine.outside, family.host, PORT_A);
        machine.reaches(&machine.a, family.outside, SERVICE, family.host);
    }
}

#[test]
fn the_host_reaches_a_host_port_on_its_own_address() {
    let machine = TrafficHost::new(&dual_stack());
    for family in &machine.families {
        machine.reaches(machine.sandbox.host(), family.host, PORT_A, family.host);
        machine.reaches(machine.sandbox.host(), family.gateway, PORT_B, family.gateway);
    }
}

/// Only for IPv4: the kernel routes nothing from `::1`.
#[test]
fn the_host_reaches_a_host_port_on_127_0_0_1() {
    for flavour in Flavour::ALL {
        let machine = TrafficHost::with_flavour(&Nomad::default(), flavour);
        let family = machine.families[0];
        let loopback = IpAddr::from([127, 0, 0, 1]);
        machine.reaches(machine.sandbox.host(), loopback, PORT_A, family.gateway);
        machine.reaches(machine.sandbox.host(), IpAddr::from([127, 0, 0, 2]), PORT_A, family.gateway);
    }
}

#[test]
fn with_hairpin_a_container_reaches_its_own_host_port() {
    let machine = TrafficHost::new(&dual_stack().hairpin(Hairpin::On));
    machine.with_and_without_bridge_filtering(|family| {
        machine.reaches(&machine.a, family.host, PORT_A, family.gateway);
        machine.reaches(&machine.b, family.gateway, PORT_B, family.gateway);
    });
}

/// The bridge sends nothing back to the port that it came from.
#[test]
fn without_hairpin_a_container_misses_its_own_host_port() {
    let machine = TrafficHost::new(&dual_stack());
    for family in &machine.families {
        machine.misses(&machine.a, family.host, PORT_A);
    }
}

/// The masquerade makes the answer pass the host, even where bridged packets pass no rules.
#[test]
fn a_container_reaches_its_neighbours_host_port() {
    for hairpin in [Hairpin::Off, Hairpin::On] {
        let machine = TrafficHost::new(&dual_stack().hairpin(hairpin));
        machine.with_and_without_bridge_filtering(|family| {
            machine.reaches(&machine.a, family.host, PORT_B, family.gateway);
            machine.reaches(&machine.a, family.gateway, PORT_B, family.gateway);
            machine.reaches(&machine.b, family.host, PORT_A, family.gateway);
        });
    }
}

/// A new container gets the address after the last one, so a freed one comes back in the end.
#[test]
fn traffic_flows_for_a_container_that_comes_after_another_left() {
    let sandbox = Sandbox::new();
    let nomad = Nomad::default();
    let outside = sandbox.outside();
    sandbox.sh("iptables -P FORWARD DROP");
    nomad.ensure_forwarding_rules(&sandbox);
    let runtime = Runtime::new(&sandbox, nomad.conflist());
    for round in ["first", "second", "third"] {
        let container = sandbox.container(round);
        let ports = PortMapping::twins(PORT_A, SERVICE);
        let mut attachment = Attachment::new(round, &container).ports(&ports, Spelling::Go);
        runtime.add(&mut attachment).expect_success();
        let servers = Echo::everywhere(&container, SERVICE);
        for transport in Transport::ALL {
            let server = SocketAddr::new(Outside::HOST_V4.into(), PORT_A);
            let seen = ask(&outside, transport, server)
                .unwrap_or_else(|error| panic!("{round} container by {transport}: {error}"));
            assert_eq!(seen.ip(), Outside::V4, "{round} container by {transport}");
        }
        drop(servers);
        runtime.del(&attachment).expect_success();
    }
}
