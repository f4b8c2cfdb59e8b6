//! ADD, CHECK, traffic and DEL of containers by any list.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::state::{assert_same, diff};
use cni_conformance::traffic::{Echo, Transport, ask, ping_until_answered};
use cni_conformance::{
    Attachment, Container, Namespace, Network, Outside, PortMapping, Runtime, Sandbox, Spelling, State, binaries,
};
use serde_json::{Value, json};

use crate::nomad_lists::served::{self, ALLOC, Egress, Served};

/// The allocations whose lives end before that of [`ALLOC`] begins.
const FIRST: &str = "1d0d2d53-1b6e-4f0f-9a39-0d62a7b1c001";
const LOST: &str = "5a0e6f60-3a1c-4a55-8f0e-6f6f7a1d2b02";

const PATIENCE: Duration = Duration::from_secs(20);

/// A host with an uplink. As on a host of Docker, it drops what is forwarded unless a rule accepts it.
pub struct NomadListHost {
    pub sandbox: Sandbox,
    pub outside: Outside,
    folder: PathBuf,
}

impl NomadListHost {
    /// With the plugins of this folder, which is asked for when the host is there.
    pub fn new(folder: fn() -> PathBuf) -> Self {
        let sandbox = Sandbox::new();
        let outside = sandbox.outside();
        Self { sandbox, outside, folder: folder() }
    }

    /// Prepares the host as Nomad, or the author of the list, does before the first ADD.
    pub fn prepare(&self, served: &Served) {
        for subnet in &served.subnets {
            if served.egress == Egress::Direct {
                self.outside.route_to(subnet);
            }
            if let Some(chain) = admin_chain(&served.list) {
                self.accept(chain, subnet);
            }
        }
    }

    fn accept(&self, chain: &str, subnet: &str) {
        let program = if subnet.contains(':') { "ip6tables" } else { "iptables" };
        self.sandbox.sh(&format!("{program} -P FORWARD DROP"));
        if self.sandbox.exec(&[program, "-S", chain]).code != Some(0) {
            self.sandbox.sh(&format!("{program} -N {chain}"));
        }
        self.sandbox.sh(&format!("{program} -A {chain} -d {subnet} -j ACCEPT"));
    }
}

/// The chain in which administrators accept what comes from outside, if the list has a firewall.
fn admin_chain(list: &Value) -> Option<&str> {
    let plugins = list["plugins"].as_array().expect("a configuration list has plugins");
    let firewall = plugins.iter().find(|plugin| plugin["type"] == "firewall")?;
    Some(firewall["iptablesAdminChainName"].as_str().unwrap_or("CNI-ADMIN"))
}

/// A container of a list, with an interface.
pub struct ListAllocation<'h> {
    host: &'h NomadListHost,
    served: &'h Served,
    pub container: Container,
    attachment: Attachment,
}

impl<'h> ListAllocation<'h> {
    /// Runs ADD.
    #[track_caller]
    pub fn start(host: &'h NomadListHost, served: &'h Served, id: &str) -> Self {
        let container = host.sandbox.container(id);
        let mut attachment = Attachment::new(id, &container).netns(&format!("/var/run/netns/{id}")).args(&served.args);
        if !served.mappings.is_empty() {
            attachment = attachment.ports(&served.mappings, Spelling::Go);
        }
        let mut alloc = Self { host, served, container, attachment };
        alloc.runtime().add(&mut alloc.attachment).expect_success();
        alloc
    }

    fn runtime(&self) -> Runtime<'h> {
        Runtime::new(&self.host.sandbox, self.served.list.clone()).binaries(&self.host.folder)
    }

    fn result(&self) -> &Value {
        self.attachment.result.as_ref().expect("ADD left a result")
    }

    /// Its addresses, in the order of the list's networks.
    fn addresses(&self) -> Vec<IpAddr> {
        let address = |ip: &Value| ip["address"].as_str().and_then(|text| text.split('/').next()?.parse().ok());
        let ips = self.result()["ips"].as_array().expect("a list of addresses");
        ips.iter().map(|ip| address(ip).unwrap_or_else(|| panic!("no address: {ip}"))).collect()
    }

    #[track_caller]
    pub fn assert_result(&self) {
        let result = self.result();
        assert_eq!(result["cniVersion"], self.served.list["cniVersion"]);
        let ips = result["ips"].as_array().expect("a list of addresses");
        let gateways: Vec<&Value> = ips.iter().map(|ip| &ip["gateway"]).collect();
        assert_eq!(json!(gateways), json!(self.served.gateways), "{result:#}");
        if let Some(address) = self.served.address {
            assert_eq!(ips[0]["address"], json!(address), "{result:#}");
        }
        let wanted = self.served.args.split(';').find_map(|pair| pair.strip_prefix("MAC="));
        let eth0 = Network::observe(&self.container).link("eth0").expect("eth0").mac.clone();
        assert_eq!(eth0, wanted.unwrap_or(&eth0));
    }

    /// CHECK passes, and changes nothing.
    #[track_caller]
    pub fn check(&self) {
        let running = State::capture(&self.host.sandbox, &[&self.container]);
        self.runtime().check(&self.attachment).expect_success();
        assert_same(&running, &State::capture(&self.host.sandbox, &[&self.container]));
    }

    #[track_caller]
    pub fn assert_traffic(&self) {
        for gateway in &self.served.gateways {
            ping_until_answered(&self.container, gateway.parse().expect("an address"), PATIENCE);
        }
        for own in self.addresses() {
            self.assert_egress(own);
        }
        for mapping in &self.served.published {
            self.assert_published(mapping);
        }
    }

    /// By UDP, since consul-cni leads connections by TCP to the proxy.
    #[track_caller]
    fn assert_egress(&self, own: IpAddr) {
        if self.served.egress == Egress::None {
            ping_until_answered(self.host.sandbox.host(), own, PATIENCE);
            return;
        }
        let source = match self.served.egress {
            Egress::Masqueraded => uplink(own),
            Egress::Direct => own,
            Egress::PastTheHost | Egress::None => return,
        };
        ping_until_answered(self.host.sandbox.host(), own, PATIENCE);
        let far = SocketAddr::new(outside(own), 7);
        let _far = Echo::start(&self.host.outside, Transport::Udp, far);
        let seen = ask(&self.container, Transport::Udp, far);
        let seen = seen.unwrap_or_else(|error| panic!("{own} asks {far}: {error}"));
        assert_eq!(seen.ip(), source, "{own} asks {far}");
    }

    /// From outside at each of the host's addresses, and on the host itself.
    #[track_caller]
    fn assert_published(&self, mapping: &PortMapping) {
        let transport = if mapping.protocol == "udp" { Transport::Udp } else { Transport::Tcp };
        let any = SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), mapping.container_port);
        let _near = Echo::start(&self.container, transport, any);
        for own in self.addresses() {
            let at = SocketAddr::new(uplink(own), mapping.host_port);
            assert_eq!(answered(&self.host.outside, transport, at), outside(own), "from outside to {at}");
            answered(self.host.sandbox.host(), transport, at);
        }
        answered(self.host.sandbox.host(), transport, (Ipv4Addr::LOCALHOST, mapping.host_port).into());
    }

    /// DEL as Nomad calls it, without arguments; twice, since it tries again.
    #[track_caller]
    pub fn stop(self) {
        let request = self.attachment.clone().args("");
        for _ in 0..2 {
            self.runtime().del(&request).expect_success();
        }
        let links = Network::observe(&self.container).links;
        assert!(links.iter().all(|link| link.name == "lo"), "{links:?}");
        let rules = self.container.sh("iptables --wait -t nat -S");
        assert!(rules.lines().all(|rule| rule.starts_with("-P ")), "{rules}");
    }

    /// DEL of a container whose namespace is gone, once under its path and once without any.
    #[track_caller]
    fn stop_lost(self) {
        self.container.remove();
        let request = self.attachment.clone().args("");
        self.runtime().del(&request).expect_success();
        self.runtime().del(&request.netns("")).expect_success();
    }
}

/// What an echo server says whose answer must come.
#[track_caller]
fn answered(from: &Namespace, transport: Transport, server: SocketAddr) -> IpAddr {
    let seen = ask(from, transport, server);
    seen.unwrap_or_else(|error| panic!("{} asks {server} by {transport}: {error}", from.name())).ip()
}

/// The outside's address of the same family.
fn outside(own: IpAddr) -> IpAddr {
    if own.is_ipv4() { Outside::V4.into() } else { Outside::V6.into() }
}

/// The host's address on the uplink of the same family.
fn uplink(own: IpAddr) -> IpAddr {
    if own.is_ipv4() { Outside::HOST_V4.into() } else { Outside::HOST_V6.into() }
}

/// What is left on the host, but for the last reserved addresses, which stay on disk.
#[track_caller]
fn assert_nothing_left(before: &State, host: &NomadListHost) {
    let mut left = diff(before, &State::of_host(&host.sandbox));
    left.retain(|line| !line.contains("/last_reserved_ip."));
    assert!(left.is_empty(), "left behind:\n{}", left.join("\n"));
}

/// The first container makes what all share, and takes away all that is its own.
#[track_caller]
fn first_life(host: &NomadListHost, served: &Served) -> State {
    ListAllocation::start(host, served, FIRST).stop();
    let shared = State::of_host(&host.sandbox);
    let own: Vec<String> = shared.lines().into_iter().filter(|line| line.contains(FIRST)).collect();
    assert!(own.is_empty(), "left behind:\n{}", own.join("\n"));
    shared
}

/// Three containers, one after the other: which makes what all share, which loses its namespace, which is used.
#[track_caller]
pub fn live(host: &NomadListHost, served: &Served) {
    host.prepare(served);
    let shared = first_life(host, served);
    ListAllocation::start(host, served, LOST).stop_lost();
    assert_nothing_left(&shared, host);
    let alloc = ListAllocation::start(host, served, ALLOC);
    alloc.assert_result();
    alloc.check();
    alloc.assert_traffic();
    alloc.check();
    alloc.stop();
    assert_nothing_left(&shared, host);
}

#[test]
fn every_list_lives() {
    for_each(served::all(), |served| live(&NomadListHost::new(binaries::under_test), &served));
}

/// Nomad's order is random, and DEL gets no arguments.
#[test]
fn the_order_of_arguments_does_not_matter() {
    let proxied = served::transparent_proxy();
    let host = NomadListHost::new(binaries::under_test);
    host.prepare(&proxied);
    let pairs: Vec<&str> = proxied.args.split(';').collect();
    for first in 0..pairs.len() {
        let (before, behind) = pairs.split_at(first);
        let args = [behind, before].concat().join(";");
        let served = Served { args, ..proxied.clone() };
        let id = format!("{first}{}", &ALLOC[1..]);
        let alloc = ListAllocation::start(&host, &served, &id);
        alloc.assert_result();
        alloc.check();
        alloc.stop();
    }
}
