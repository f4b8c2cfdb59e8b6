//! Nomad's bridge network: its configuration list, its admin chain, its arguments.
//!
//! Each test plays Nomad's part as Nomad 2.0 does it and looks at what Nomad, its operators and
//! the containers get: results, leases on disk, links, addresses, routes and rules.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use cni_conformance::nomad::{self, ADMIN_CHAIN, GATEWAY_V4, GATEWAY_V6};
use cni_conformance::state::{self, diff};
use cni_conformance::traffic::{Echo, Transport, ask, ask_within};
use cni_conformance::{
    Attachment, Container, Flavour, Hairpin, Network, Nomad, Outside, PortMapping, Runtime, Sandbox, Spelling, State,
    Subnets, Verb,
};
use serde_json::{Value, json};

const NEIGHBOUR: &str = "1d0d2d53-1b6e-4f0f-9a39-0d62a7b1c001";
const ALLOC: &str = "8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10";

/// The neighbour has `.2` and `::2`, so the allocation under test has these.
const ADDRESS_V4: &str = "172.26.64.3";
const ADDRESS_V6: &str = "fd00:a110:c8::3";

/// The name of the list, the alloc's ID and SHA-512 give these two names, which operators know.
const MASQUERADE_CHAIN: &str = "CNI-f795935c5b000b7816d4ca95";
const PORT_CHAIN: &str = "CNI-DN-f795935c5b000b7816d4c";

/// A Nomad client that already runs an allocation, and a new one that is about to be attached.
struct NomadClient {
    container: Container,
    nomad: Nomad,
    sandbox: Sandbox,
}

impl NomadClient {
    fn new(nomad: Nomad) -> Self {
        Self::with_flavour(nomad, Flavour::Nft)
    }

    fn with_flavour(nomad: Nomad, flavour: Flavour) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        nomad.ensure_forwarding_rules(&sandbox);
        let neighbour = sandbox.container(NEIGHBOUR);
        let mut attachment = Attachment::new(NEIGHBOUR, &neighbour).ports(&PortMapping::twins(9090, 90), Spelling::Go);
        Runtime::new(&sandbox, nomad.conflist()).add(&mut attachment).expect_success();
        let container = sandbox.container(ALLOC);
        Self { container, nomad, sandbox }
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.nomad.conflist())
    }

    /// Describes the new allocation as Nomad does, with the path below `/var/run`.
    fn attachment(&self) -> Attachment {
        Attachment::new(ALLOC, &self.container)
            .netns(&format!("/var/run/netns/{ALLOC}"))
            .ports(&PortMapping::twins(8080, 80), Spelling::Go)
            .args(&nomad::args(ALLOC, "web", &[]))
    }

    fn add(&self) -> Attachment {
        let mut attachment = self.attachment();
        self.runtime().add(&mut attachment).expect_success();
        attachment
    }

    fn host(&self) -> State {
        State::of_host(&self.sandbox)
    }

    fn dual_stack(&self) -> bool {
        self.nomad.subnets == Subnets::V4AndV6
    }

    fn assert_result(&self, result: &Value) {
        assert_eq!(result["cniVersion"], json!(self.nomad.cni_version));
        self.assert_interfaces(result);
        let mut addresses = vec![(format!("{ADDRESS_V4}/20"), GATEWAY_V4, "4")];
        let mut routes = vec![json!({"dst": "0.0.0.0/0"})];
        if self.dual_stack() {
            addresses.push((format!("{ADDRESS_V6}/120"), GATEWAY_V6, "6"));
            routes.push(json!({"dst": "::/0"}));
        }
        let ips = addresses.iter().map(|(address, gateway, family)| {
            let mut ip = json!({"interface": 2, "address": address, "gateway": gateway});
            if self.nomad.cni_version == "0.4.0" {
                ip["version"] = json!(family);
            }
            ip
        });
        assert_eq!(result["ips"], ips.collect::<Value>(), "{result:#}");
        assert_eq!(result["routes"], json!(routes), "{result:#}");
    }

    fn assert_interfaces(&self, result: &Value) {
        let host = Network::observe(self.sandbox.host());
        let inside = Network::observe(&self.container);
        let interfaces = result["interfaces"].as_array().expect("a list of interfaces");
        let [bridge, port, eth0] = &interfaces[..] else { panic!("three interfaces: {result:#}") };
        let bridge_link = host.link("nomad").expect("the bridge");
        assert_eq!(*bridge, json!({"name": "nomad", "mac": bridge_link.mac}));
        let port_link = host.link(port["name"].as_str().expect("a name")).expect("the bridge's port");
        assert_eq!(*port, json!({"name": port_link.name, "mac": port_link.mac}));
        let eth0_link = inside.link("eth0").expect("eth0");
        let sandbox = format!("/var/run/netns/{ALLOC}");
        assert_eq!(*eth0, json!({"name": "eth0", "mac": eth0_link.mac, "sandbox": sandbox}));
    }

    fn assert_host(&self, result: &Value) {
        let network = Network::observe(self.sandbox.host());
        let bridge = network.link("nomad").expect("the bridge");
        assert_eq!((bridge.kind.as_deref(), bridge.up), (Some("bridge"), true));
        let port = network.link(result["interfaces"][1]["name"].as_str().expect("a name")).expect("the port");
        assert_eq!((port.kind.as_deref(), port.up, port.mtu), (Some("veth"), true, 1500));
        assert_eq!(port.controller.as_deref(), Some("nomad"));
        assert_eq!(port.hairpin, Some(self.nomad.hairpin == Hairpin::On));
        assert_eq!(port.isolated, Some(false));
        let mut gateways = vec![format!("{GATEWAY_V4}/20")];
        if self.dual_stack() {
            gateways.push(format!("{GATEWAY_V6}/120"));
        }
        assert_eq!(network.addresses_of("nomad"), gateways);
        assert_eq!(self.sandbox.sysctl("net/ipv4/ip_forward"), "1");
        assert_eq!(self.sandbox.sysctl("net/ipv6/conf/all/forwarding"), if self.dual_stack() { "1" } else { "0" });
    }

    fn assert_container(&self) {
        let network = Network::observe(&self.container);
        let links: Vec<_> = network.links.iter().map(|link| (link.name.as_str(), link.up)).collect();
        assert_eq!(links, [("lo", true), ("eth0", true)]);
        assert_eq!(network.addresses_of("lo"), ["127.0.0.1/8", "::1/128"]);
        let mut addresses = vec![format!("{ADDRESS_V4}/20")];
        let mut routes =
            vec![format!("0.0.0.0/0 via {GATEWAY_V4} dev eth0"), format!("172.26.64.0/20 dev eth0 src {ADDRESS_V4}")];
        if self.dual_stack() {
            addresses.push(format!("{ADDRESS_V6}/120"));
            routes.push("fd00:a110:c8::/120 dev eth0 metric 256".to_owned());
            routes.push(format!("::/0 via {GATEWAY_V6} dev eth0 metric 1024"));
        }
        assert_eq!(network.addresses_of("eth0"), addresses);
        let tentative: Vec<_> = network.addresses.iter().filter(|address| address.tentative).collect();
        assert!(tentative.iter().all(|address| address.is_link_local()), "{tentative:?}");
        let found = network.routes.iter().filter(|route| !route.destination.starts_with("fe80:"));
        let found: Vec<String> = found.map(ToString::to_string).collect();
        assert_eq!(found, routes);
    }

    fn assert_leases(&self) {
        let lease = format!("{ALLOC}\r\neth0");
        assert_file(ADDRESS_V4, 0o600, &lease);
        assert_file("last_reserved_ip.0", 0o600, ADDRESS_V4);
        assert_file("lock", 0o750, "");
        if self.dual_stack() {
            assert_file(ADDRESS_V6, 0o600, &lease);
            assert_file("last_reserved_ip.1", 0o600, ADDRESS_V6);
        }
    }
}

fn assert_file(name: &str, mode: u32, content: &str) {
    let path = Path::new("/run/cni/nomad").join(name);
    let found = fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    assert_eq!(found, content, "{}", path.display());
    let about = fs::metadata(&path).unwrap_or_else(|error| panic!("stat {}: {error}", path.display()));
    assert_eq!(about.permissions().mode() & 0o7777, mode, "mode of {}", path.display());
}

/// The last reserved address stays on disk, so that the next container gets the one after it.
fn without_cursor(changes: Vec<String>) -> Vec<String> {
    changes.into_iter().filter(|line| !line.contains("/last_reserved_ip.")).collect()
}

/// ADD, CHECK and DEL of one allocation beside another.
fn live(nomad: Nomad) {
    let client = NomadClient::new(nomad);
    let before = client.host();
    let attachment = client.add();
    let result = attachment.result.as_ref().expect("ADD left a result");
    client.assert_result(result);
    client.assert_host(result);
    client.assert_container();
    client.assert_leases();

    let running = State::capture(&client.sandbox, &[&client.container]);
    client.nomad.ensure_forwarding_rules(&client.sandbox);
    // Go v1.1.1 looks for IPv6 rules of an IPv4 container and fails a healthy allocation here.
    client.runtime().check(&attachment).expect_success();
    state::assert_same(&running, &State::capture(&client.sandbox, &[&client.container]));

    client.runtime().del(&attachment.args("")).expect_success();
    let left = without_cursor(diff(&before, &client.host()));
    assert!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    assert!(Network::observe(&client.container).link("eth0").is_none(), "eth0 must be gone");
}

macro_rules! lists {
    ($($name:ident: $version:literal $subnets:ident $hairpin:ident;)*) => {
        $(
            #[test]
            fn $name() {
                let subnets = Subnets::$subnets;
                live(Nomad { subnets, ..Nomad::version($version).hairpin(Hairpin::$hairpin) });
            }
        )*
    };
}

lists! {
    a_list_of_0_4_0_with_ipv4_lives: "0.4.0" V4 Off;
    a_list_of_0_4_0_with_ipv4_and_hairpin_lives: "0.4.0" V4 On;
    a_list_of_0_4_0_with_both_families_lives: "0.4.0" V4AndV6 Off;
    a_list_of_0_4_0_with_both_families_and_hairpin_lives: "0.4.0" V4AndV6 On;
    a_list_of_1_0_0_with_ipv4_lives: "1.0.0" V4 Off;
    a_list_of_1_0_0_with_ipv4_and_hairpin_lives: "1.0.0" V4 On;
    a_list_of_1_0_0_with_both_families_lives: "1.0.0" V4AndV6 Off;
    a_list_of_1_0_0_with_both_families_and_hairpin_lives: "1.0.0" V4AndV6 On;
}

/// Nomad runs every binary bare and takes the first word that is a version for the plugin's.
#[test]
fn the_fingerprint_finds_a_release_that_nomad_trusts() {
    let sandbox = Sandbox::new();
    for plugin in ["loopback", "bridge", "host-local", "firewall", "portmap"] {
        let outcome = cni_conformance::Invocation::new(&sandbox, plugin, Verb::Version)
            .without_env("CNI_COMMAND")
            .without_env("CNI_CONTAINERID")
            .without_env("CNI_IFNAME")
            .deadline(Duration::from_secs(30))
            .run();
        outcome.expect_success();
        assert_eq!(outcome.stdout(), "", "the about text goes to stderr");
        let text = outcome.stderr();
        let first = text.split_whitespace().find_map(release);
        // Go builds of distributions say `version unknown`, which turns CHECK off.
        assert!(first.is_some_and(|release| release >= [1, 7, 1]), "{text}");
    }
}

/// Reads `v1.9.1+meta`; Nomad does not trust a pre-release.
fn release(word: &str) -> Option<[u32; 3]> {
    let numbers = word.trim_start_matches('v').split('+').next()?;
    let numbers: Option<Vec<u32>> = numbers.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Nomad refuses a network whose list is `loopback` alone unless the result has an address, and
/// reads results by their version; Go prints the 1.0.0 form whatever the list says.
#[test]
fn loopback_gives_its_addresses_in_the_form_of_the_lists_version() {
    for (version, family) in [("0.4.0", true), ("1.0.0", false)] {
        let sandbox = Sandbox::new();
        let container = sandbox.container(ALLOC);
        let list = json!({"cniVersion": version, "name": "lo", "plugins": [{"type": "loopback"}]});
        let result = Runtime::new(&sandbox, list).add(&mut Attachment::new(ALLOC, &container)).result();
        assert_eq!(result["cniVersion"], json!(version));
        assert_eq!(result["interfaces"][0]["name"], json!("lo"));
        assert_eq!(result["interfaces"][0]["sandbox"], json!(container.path()));
        for (index, (address, number)) in [("127.0.0.1/8", "4"), ("::1/128", "6")].into_iter().enumerate() {
            let ip = &result["ips"][index];
            assert_eq!((&ip["address"], &ip["interface"]), (&json!(address), &json!(0)), "{result:#}");
            let expected = if family { json!(number) } else { Value::Null };
            assert_eq!(ip["version"], expected, "{version}: {result:#}");
        }
    }
}

#[test]
fn force_address_replaces_the_gateway_of_an_earlier_network() {
    let sandbox = Sandbox::new();
    for line in ["ip link add nomad type bridge", "ip address add 10.99.0.1/24 dev nomad", "ip link set nomad up"] {
        sandbox.sh(line);
    }
    let container = sandbox.container(ALLOC);
    Runtime::new(&sandbox, Nomad::default().conflist()).add(&mut Attachment::new(ALLOC, &container)).expect_success();
    let gateways = Network::observe(sandbox.host()).addresses_of("nomad");
    assert_eq!(gateways, [format!("{GATEWAY_V4}/20")]);
}

#[test]
fn without_force_address_a_bridge_of_another_network_is_refused() {
    let sandbox = Sandbox::new();
    for line in ["ip link add nomad type bridge", "ip address add 10.99.0.1/24 dev nomad"] {
        sandbox.sh(line);
    }
    let container = sandbox.container(ALLOC);
    let mut list = Nomad::default().conflist();
    list["plugins"][1]["forceAddress"] = json!(false);
    let chain = Runtime::new(&sandbox, list).add(&mut Attachment::new(ALLOC, &container));
    let (plugin, outcome) = chain.steps().last().expect("steps");
    assert_eq!(plugin, "bridge");
    let error = outcome.error();
    assert!(error.msg.contains("nomad") || error.details.contains("nomad"), "{outcome}");
    assert_eq!(Network::observe(sandbox.host()).addresses_of("nomad"), ["10.99.0.1/24"]);
}

#[test]
fn both_spellings_of_port_mappings_make_the_same_rules() {
    for host_ip in ["", "192.0.2.1"] {
        let ports: Vec<_> = PortMapping::twins(8080, 80).into_iter().map(|port| port.on(host_ip)).collect();
        let [spec, go] = Spelling::ALL.map(|spelling| {
            let client = NomadClient::new(Nomad::default());
            client.runtime().add(&mut client.attachment().ports(&ports, spelling)).expect_success();
            let state = client.host();
            [state.section("iptables nat").to_vec(), state.section("iptables filter").to_vec()]
        });
        assert_eq!(spec, go, "HostIP {host_ip:?}");
        let dnat = spec[0].iter().filter(|rule| rule.contains("-j DNAT") && rule.contains("--dport 8080"));
        assert_eq!(dnat.count(), 2, "one rule for tcp, one for udp: {:#?}", spec[0]);
    }
}

#[test]
fn no_port_mappings_and_an_empty_list_of_them_are_no_error() {
    let client = NomadClient::new(Nomad::default());
    for attachment in [client.attachment().ports(&[], Spelling::Go), client.attachment().without_capabilities()] {
        let mut attachment = attachment;
        client.runtime().add(&mut attachment).expect_success();
        let rules = client.host();
        let own = |rule: &&String| rule.contains(PORT_CHAIN);
        assert_eq!(rules.section("iptables nat").iter().find(own), None);
        client.runtime().check(&attachment).expect_success();
        client.runtime().del(&attachment).expect_success();
    }
}

#[test]
fn a_mapping_with_a_host_address_answers_on_that_address_alone() {
    let client = NomadClient::new(Nomad::default());
    let outside = client.sandbox.outside();
    client.sandbox.sh(&format!("ip address add 192.0.2.9/24 dev {}", Outside::HOST_LINK));
    let ports: Vec<_> = PortMapping::twins(8080, 80).into_iter().map(|port| port.on("192.0.2.9")).collect();
    client.runtime().add(&mut client.attachment().ports(&ports, Spelling::Go)).expect_success();
    let _servers = Echo::everywhere(&client.container, 80);
    for transport in Transport::ALL {
        let bound: SocketAddr = "192.0.2.9:8080".parse().expect("an address");
        let other: SocketAddr = "192.0.2.1:8080".parse().expect("an address");
        let seen = ask(&outside, transport, bound).unwrap_or_else(|error| panic!("{transport} {bound}: {error}"));
        assert_eq!(seen.ip(), Outside::V4, "{transport}");
        let answer = ask_within(&outside, transport, other, Duration::from_millis(300));
        assert!(answer.is_err(), "{transport} {other} answered");
    }
}

/// Go refuses such a pair even with `IgnoreUnknown=true`, so that a job whose ID has an equals
/// sign gets no network.
#[test]
fn args_whose_values_have_equals_signs_are_accepted() {
    let client = NomadClient::new(Nomad::default());
    let tproxy = r#"{"ConsulDNSIP":"192.168.1.117","ConsulDNSPort":8600,"ProxyUserID":"101"}"#;
    let user = [("CONSUL_IPTABLES_CONFIG", tproxy), ("EMPTY", ""), ("TOKEN", "YWJj==")];
    let mut attachment = client.attachment().args(&nomad::args(ALLOC, "batch/dispatch=1=2", &user));
    client.runtime().add(&mut attachment).expect_success();
    client.runtime().check(&attachment).expect_success();
    client.runtime().del(&attachment.args("")).expect_success();
    assert!(!Path::new("/run/cni/nomad").join(ADDRESS_V4).exists(), "DEL without arguments frees the address");
}

#[test]
fn args_pin_an_address() {
    let client = NomadClient::new(Nomad::default().dual_stack());
    let args = nomad::args(ALLOC, "web", &[("IP", "172.26.64.77")]);
    let result = client.runtime().add(&mut client.attachment().args(&args)).result();
    assert_eq!(result["ips"][0]["address"], json!("172.26.64.77/20"));
    assert_eq!(result["ips"][1]["address"], json!(format!("{ADDRESS_V6}/120")));
    assert_file("172.26.64.77", 0o600, &format!("{ALLOC}\r\neth0"));
}

#[test]
fn the_admin_chain_comes_first_and_keeps_nomads_rule() {
    for flavour in Flavour::ALL {
        let client = NomadClient::with_flavour(Nomad::default().dual_stack(), flavour);
        client.add();
        let state = client.host();
        for (program, subnet) in [("iptables", nomad::SUBNET_V4), ("ip6tables", nomad::SUBNET_V6)] {
            let rules = state.section(&format!("{program} filter"));
            let of_chain = |chain: &str| {
                let prefix = format!("-A {chain} ");
                rules.iter().filter(|rule| rule.starts_with(&prefix)).cloned().collect::<Vec<_>>()
            };
            assert_eq!(of_chain(ADMIN_CHAIN), [format!("-A {ADMIN_CHAIN} -d {subnet} -o nomad -j ACCEPT")]);
            let jump = r#"-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD"#;
            assert_eq!(of_chain("FORWARD"), [jump], "{program}");
            let admin = format!(
                r#"-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j {ADMIN_CHAIN}"#
            );
            let forward = of_chain("CNI-FORWARD");
            assert_eq!(forward[0], admin, "{program}");
            assert_eq!(forward.iter().filter(|rule| **rule == admin).count(), 1, "{program}");
        }
    }
}

#[test]
fn nomads_own_cleanup_finds_the_masquerade_rule() {
    for flavour in Flavour::ALL {
        let client = NomadClient::with_flavour(Nomad::default(), flavour);
        client.add();
        let state = client.host();
        let comment = format!(r#"-m comment --comment "name: \"nomad\" id: \"{ALLOC}\"""#);
        let rules = state.section("iptables nat");
        let of_alloc: Vec<_> = rules.iter().filter(|rule| rule.contains(ALLOC) && !rule.contains("dnat")).collect();
        assert_eq!(
            of_alloc,
            [
                &format!("-A POSTROUTING -s {ADDRESS_V4}/32 {comment} -j {MASQUERADE_CHAIN}"),
                &format!("-A {MASQUERADE_CHAIN} -d 172.26.64.0/20 {comment} -j ACCEPT"),
                &format!("-A {MASQUERADE_CHAIN} ! -d 224.0.0.0/4 {comment} -j MASQUERADE"),
            ]
        );
    }
}

/// A host may have no IPv6 at all; Go v1.1.1 looks for rules there on CHECK and DEL.
#[test]
fn an_ipv4_network_leaves_ip6tables_alone() {
    for flavour in Flavour::ALL {
        let client = NomadClient::with_flavour(Nomad::default(), flavour);
        let attachment = client.add();
        let state = client.host();
        let nat = ["-P PREROUTING ACCEPT", "-P INPUT ACCEPT", "-P OUTPUT ACCEPT", "-P POSTROUTING ACCEPT"];
        assert_eq!(state.section("ip6tables nat"), nat);
        let filter = ["-P INPUT ACCEPT", "-P FORWARD ACCEPT", "-P OUTPUT ACCEPT"];
        assert_eq!(state.section("ip6tables filter"), filter);
        client.runtime().del(&attachment).expect_success();
        assert_eq!(client.host().section("ip6tables nat"), nat);
    }
}
