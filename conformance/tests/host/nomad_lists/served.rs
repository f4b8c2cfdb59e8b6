//! The lists whose plugins all exist here, and what each promises.
//!
//! If a list in the field names a link of its machine or a plugin that is missing here, a comment says what replaces
//! it.

use cni_conformance::nomad::{self, GATEWAY_V4, GATEWAY_V6, SUBNET_V4, SUBNET_V6};
use cni_conformance::{Hairpin, Nomad, PortMapping};
use serde_json::{Value, json};

use crate::nomad_lists::waiting::behind_a_bridge;

/// The ID of the allocation that each list is for.
pub const ALLOC: &str = "8c0b7f1e-93a2-4a6b-8f8e-2f4b0c8d9e10";

/// How packets of a container come out of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Egress {
    /// Under the host's address.
    Masqueraded,
    /// Under the container's own, so the outside needs a route to it.
    Direct,
    /// Not at all: there is no route, but the host reaches the container.
    None,
    /// By another way: the host neither reaches the container nor is reached.
    PastTheHost,
}

/// A list, and what a container of it has.
#[derive(Debug, Clone)]
pub struct Served {
    pub list: Value,
    /// What Nomad and the job send.
    pub args: String,
    /// What Nomad sends in the `portMappings` capability.
    pub mappings: Vec<PortMapping>,
    /// The mappings that must work.
    pub published: Vec<PortMapping>,
    /// The container's networks, one for each family.
    pub subnets: Vec<&'static str>,
    pub gateways: Vec<&'static str>,
    pub egress: Egress,
    /// The third container's address, where the job or the list decides it.
    pub address: Option<&'static str>,
}

impl Served {
    /// With one port, as Nomad sends it, and an IPv4 network.
    pub fn new(list: Value, subnet: &'static str, gateway: &'static str) -> Self {
        let mappings = PortMapping::twins(8080, 80);
        Self {
            list,
            args: nomad::args(ALLOC, "web", &[]),
            published: mappings.clone(),
            mappings,
            subnets: vec![subnet],
            gateways: vec![gateway],
            egress: Egress::Masqueraded,
            address: None,
        }
    }

    pub fn and(mut self, subnet: &'static str, gateway: &'static str) -> Self {
        self.subnets.push(subnet);
        self.gateways.push(gateway);
        self
    }

    fn args(self, args: String) -> Self {
        Self { args, ..self }
    }

    fn unpublished(self) -> Self {
        Self { published: Vec::new(), ..self }
    }
}

/// Nomad's chain as people copy it, with these addresses.
pub fn copy(name: &str, version: &str, admin_chain: &str, ipam: Value) -> Value {
    json!({
        "cniVersion": version, "name": name,
        "plugins": [
            {"type": "loopback"},
            {
                "type": "bridge", "bridge": "nomad", "ipMasq": true, "isGateway": true,
                "forceAddress": true, "hairpinMode": false, "ipam": ipam,
            },
            {"type": "firewall", "backend": "iptables", "iptablesAdminChainName": admin_chain},
            {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
        ],
    })
}

fn routes_v4() -> Value {
    json!([{"dst": "0.0.0.0/0"}])
}

fn routes() -> Value {
    json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}])
}

/// The template of Nomad's documentation, which has no `dataDir`.
fn documented() -> Served {
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": SUBNET_V4}]], "routes": routes_v4()});
    Served::new(copy("nomad", "1.0.0", "NOMAD-ADMIN", ipam), SUBNET_V4, GATEWAY_V4)
}

/// The same with `bridge_network_subnet_ipv6` as the documentation of the client sets it.
fn documented_v6() -> Served {
    Served::new(Nomad::default().dual_stack().conflist(), SUBNET_V4, GATEWAY_V4).and(SUBNET_V6, GATEWAY_V6)
}

/// Nomad hands the network on as its user wrote it, here with a leading zero.
fn generated_v6() -> Served {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": SUBNET_V4}], [{"subnet": "3fff:cab0:0d13::/120"}]],
        "routes": routes(), "dataDir": "/var/run/cni",
    });
    Served::new(copy("nomad", "0.4.0", "NOMAD-ADMIN", ipam), SUBNET_V4, GATEWAY_V4)
        .and("3fff:cab0:d13::/120", "3fff:cab0:d13::1")
}

fn hairpin() -> Served {
    Served::new(Nomad::default().hairpin(Hairpin::On).conflist(), SUBNET_V4, GATEWAY_V4)
}

/// Before 1.1.15 there was no loopback in it, before 1.5.0 no `hairpinMode`, before 1.9.4 no `dataDir`.
fn old() -> Served {
    let mut served = documented();
    served.list["cniVersion"] = json!("0.4.0");
    let plugins = served.list["plugins"].as_array_mut().expect("plugins");
    plugins.remove(0);
    plugins[0].as_object_mut().expect("an object").remove("hairpinMode");
    served
}

/// A copy for end-to-end tests: another name, the bridge and the `dataDir` of Nomad's own network.
pub fn bridge_copy() -> Served {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": SUBNET_V4}], [{"subnet": "a110:c8::/112"}]],
        "routes": routes(), "dataDir": "/var/run/cni",
    });
    Served::new(copy("nomad-bridge-copy", "1.0.0", "NOMAD-ADMIN", ipam), SUBNET_V4, GATEWAY_V4)
        .and("a110:c8::/112", "a110:c8::1")
}

/// A copy with an admin chain of its own and both families by hand, on Nomad's bridge.
pub fn own_admin_chain() -> Served {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": SUBNET_V4}], [{"subnet": "fd00:db8:2::/64"}]],
        "routes": routes(),
    });
    Served::new(copy("rivet-job", "0.4.0", "RIVET-ADMIN", ipam), SUBNET_V4, GATEWAY_V4)
        .and("fd00:db8:2::/64", "fd00:db8:2::1")
}

/// What Nomad sends to consul-cni; the published port is the proxy's.
fn consul() -> Value {
    json!({
        "ConsulDNSIP": "", "ConsulDNSPort": 0, "ProxyUserID": "101", "ProxyInboundPort": 80,
        "ProxyOutboundPort": 15001, "ExcludeInboundPorts": null, "ExcludeOutboundPorts": null,
        "ExcludeOutboundCIDRs": null, "ExcludeUIDs": null, "NetNS": format!("/var/run/netns/{ALLOC}"),
        "IptablesProvider": null,
    })
}

/// Nomad's list at its longest; the job sets keys of its own, and one of its names has an equals sign.
pub fn transparent_proxy() -> Served {
    let mut served = generated_v6();
    let plugins = served.list["plugins"].as_array_mut().expect("plugins");
    plugins.push(json!({"type": "consul-cni", "log_level": "debug"}));
    let user =
        [("CONSUL_IPTABLES_CONFIG", &*consul().to_string()), ("IP", "172.26.64.77"), ("MAC", "00:01:02:03:04:05")];
    served.address = Some("172.26.64.77/20");
    served.args(nomad::args(ALLOC, "web=blue", &user))
}

/// Addresses by the job. Users have macvlan, ipvlan or vlan; here it is a bridge.
fn fixed_by_the_job() -> Served {
    let list = json!({
        "cniVersion": "1.0.0", "name": "fixed",
        "plugins": [
            {
                "type": "bridge", "bridge": "fixed0", "isGateway": true, "ipMasq": true,
                "ipam": {"type": "static", "routes": routes_v4()},
            },
            {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
        ],
    });
    let user = [("IP", "10.128.2.53/21"), ("GATEWAY", "10.128.0.1"), ("NOMAD_JOB_NAME", "web")];
    let served = Served::new(list, "10.128.0.0/21", "10.128.0.1").args(nomad::args(ALLOC, "web", &user));
    Served { address: Some("10.128.2.53/21"), ..served }
}

/// Each node has its part of a network across nodes, and a route names its gateway. In the field the keys are
/// macvlan's, over a bridge that leads to a VXLAN; here it is the bridge plugin's own bridge.
fn part_of_a_network() -> Served {
    let list = json!({
        "cniVersion": "1.0.0", "name": "part",
        "plugins": [
            {"type": "loopback"},
            {
                "type": "bridge", "bridge": "vxbr1", "isDefaultGateway": true, "forceAddress": true, "ipMasq": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{
                        "subnet": "192.168.3.0/24", "rangeStart": "192.168.3.66", "rangeEnd": "192.168.3.126",
                        "gateway": "192.168.3.65",
                    }]],
                    "routes": [{"dst": "0.0.0.0/0", "gw": "192.168.3.65"}],
                    "dataDir": "/run/cni/ipam-state",
                },
            },
            {"type": "firewall", "backend": "iptables", "iptablesAdminChainName": "NOMAD-ADMIN"},
            {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
        ],
    });
    Served { address: Some("192.168.3.68/24"), ..Served::new(list, "192.168.3.0/24", "192.168.3.65") }
}

fn flat(plugins: Value) -> Served {
    let list = json!({"cniVersion": "0.4.0", "name": "default", "plugins": plugins});
    Served::new(list, "192.168.127.0/24", "192.168.127.1")
}

/// The older form of host-local's keys. Users have it with ptp; here it is a bridge.
fn flat_ipam() -> Value {
    json!({
        "type": "bridge", "isDefaultGateway": true, "ipMasq": true,
        "ipam": {"type": "host-local", "subnet": "192.168.127.0/24", "resolvConf": "/etc/resolv.conf"},
    })
}

fn flat_with_firewall() -> Served {
    flat(json!([flat_ipam(), {"type": "firewall"}])).unpublished()
}

/// The task driver of firecracker sends no capability: the port is in the file, under a key in another case.
fn port_in_the_file() -> Served {
    let portmap = json!({
        "type": "portmap", "capabilities": {"portMappings": true},
        "runTimeConfig": {"portMappings": [{"hostPort": 27960, "containerPort": 27960, "protocol": "udp"}]},
    });
    let served = flat(json!([flat_ipam(), {"type": "firewall"}, portmap]));
    Served { mappings: Vec::new(), published: vec![PortMapping::new(27960, 27960, "udp")], ..served }
}

/// The list of the task driver of firecracker, whose guests have a default route of their own, behind a tap. Nothing
/// leads packets of the container itself farther than to the gateway.
fn routed(name: &str, behind: &[Value]) -> Served {
    let ptp = json!({
        "type": "ptp", "ipMasq": true,
        "ipam": {"type": "host-local", "subnet": "192.168.127.0/24", "resolvConf": "/etc/resolv.conf"},
    });
    let plugins = [&[ptp], behind].concat();
    let list = json!({"cniVersion": "0.4.0", "name": name, "plugins": plugins});
    let served = Served::new(list, "192.168.127.0/24", "192.168.127.1").unpublished();
    Served { mappings: Vec::new(), egress: Egress::None, ..served }
}

fn routed_with_firewall() -> Served {
    routed("edge", &[json!({"type": "firewall"})])
}

fn routed_with_a_port_in_the_file() -> Served {
    let portmap = json!({
        "type": "portmap", "capabilities": {"portMappings": true},
        "runTimeConfig": {"portMappings": [{"hostPort": 27960, "containerPort": 27960, "protocol": "udp"}]},
    });
    routed("microvms", &[json!({"type": "firewall"}), portmap])
}

/// Seldom on Nomad: a parameter of the container, behind the copied chain.
fn tuned() -> Served {
    let mut served = documented();
    let plugins = served.list["plugins"].as_array_mut().expect("plugins");
    plugins.push(json!({"type": "tuning", "sysctl": {"net.core.somaxconn": "512"}}));
    served
}

/// Seldom on Nomad: limits behind a bridge, with no port.
fn limited() -> Served {
    let list = behind_a_bridge(json!({
        "type": "bandwidth", "ingressRate": 8_000_000, "ingressBurst": 800_000, "egressRate": 8_000_000,
        "egressBurst": 800_000,
    }));
    Served::new(list, "10.88.0.0/24", "10.88.0.1").unpublished()
}

/// All of them, by what they are.
pub fn all() -> [(&'static str, Served); 16] {
    [
        ("the documentation's template", documented()),
        ("the documentation's network with IPv6", documented_v6()),
        ("IPv6 as Nomad's user wrote it", generated_v6()),
        ("hairpin mode", hairpin()),
        ("the list before 1.1.15", old()),
        ("the copy of end-to-end tests", bridge_copy()),
        ("the copy with an admin chain of its own", own_admin_chain()),
        ("both families and a transparent proxy", transparent_proxy()),
        ("addresses by the job", fixed_by_the_job()),
        ("part of a network across nodes", part_of_a_network()),
        ("a flat subnet, firewall, no portmap", flat_with_firewall()),
        ("a port in the file", port_in_the_file()),
        ("ptp, firewall", routed_with_firewall()),
        ("ptp, firewall, a port in the file", routed_with_a_port_in_the_file()),
        ("tuning behind Nomad's chain", tuned()),
        ("bandwidth behind a bridge", limited()),
    ]
}
