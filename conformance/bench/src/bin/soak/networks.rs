//! The networks. Together they use all plugins that this kernel supports; the others are reported and left out.

use std::path::Path;
use std::thread;

use cni_conformance::{Feature, Sandbox, reference};
use serde_json::{Value, json};

/// A network with the template of its configuration list.
#[derive(Debug)]
pub struct NetworkTemplate {
    pub name: &'static str,
    list: Value,
    /// The namespace from which its containers are reached; `None` if they answer no packets.
    pub reached_from: Option<Router>,
    /// The folder of its leases; `None` if its IPAM plugin has no folder.
    pub leases: Option<String>,
    /// Whether host ports lead to its containers.
    pub has_ports: bool,
    /// Whether the reference has all its plugins and understands their configuration.
    pub is_for_reference: bool,
}

/// The namespace from which containers are reached directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Router {
    /// The host.
    Host,
    /// The namespace behind the master interface of this macvlan network.
    Lan(&'static str),
}

/// Placeholder for a container's device in the list of host-device.
const DEVICE: &str = "DEVICE";

/// The argument of Consul's transparent proxy; it excludes the port on which the container listens.
const CONSUL: &str = r#"{"ProxyUserID":"101","ProxyInboundPort":20000,"ProxyOutboundPort":15001,"ExcludeInboundPorts":["80"],"ExcludeOutboundPorts":[],"ExcludeOutboundCIDRs":[],"ExcludeUIDs":[]}"#;

impl NetworkTemplate {
    /// A network whose containers the host reaches.
    fn new(name: &'static str, plugins: Value) -> Self {
        Self {
            name,
            list: json!({"cniVersion": "1.0.0", "name": name, "plugins": plugins}),
            reached_from: Some(Router::Host),
            leases: Some(format!("/var/lib/cni/networks/{name}")),
            has_ports: false,
            is_for_reference: false,
        }
    }

    /// The configuration list for a container; only host-device uses the device.
    pub fn list(&self, device: &str) -> Value {
        serde_json::from_str(&self.list.to_string().replace(DEVICE, device)).expect("a name needs no escape")
    }

    /// Whether each container gets a device of the host.
    pub fn needs_device(&self) -> bool {
        self.name == "device"
    }

    /// `CNI_ARGS` for a container, by the worker's number and its own.
    pub fn args(&self, worker: u64, number: u64) -> String {
        match self.name {
            "nomad" => format!("IgnoreUnknown=true;CONSUL_IPTABLES_CONFIG={CONSUL}"),
            "tap" | "dummy" => format!("IgnoreUnknown=true;IP=10.96.{worker}.{}/16", number % 250 + 1),
            _ => "IgnoreUnknown=true".to_owned(),
        }
    }

    fn plugins(&self) -> impl Iterator<Item = &Value> {
        self.list["plugins"].as_array().into_iter().flatten()
    }

    /// The types of its plugins, with those of IPAM.
    pub fn types(&self) -> Vec<&str> {
        let ipam = |plugin: &'_ Value| plugin["ipam"]["type"].as_str().is_some();
        let own = self.plugins().filter_map(|plugin| plugin["type"].as_str());
        own.chain(self.plugins().filter(|plugin| ipam(plugin)).filter_map(|plugin| plugin["ipam"]["type"].as_str()))
            .collect()
    }
}

/// Makes the networks, and reports what this kernel does not support.
pub fn all(dhcp: bool, reference: Option<&Path>) -> Vec<NetworkTemplate> {
    let mut networks = vec![
        nomad(),
        sets(),
        routed(),
        bridged(),
        lan("lan", "lan0"),
        lan("twin", "twin0"),
        device(dhcp),
        tap(),
        flannel(),
    ];
    if can_redirect() {
        networks.push(virtual_machines());
    } else {
        reference::say("LEFT OUT, since this kernel cannot redirect frames: the plugin tc-redirect-tap");
    }
    for feature in Feature::ALL.into_iter().filter(|feature| *feature != Feature::Hardware) {
        match (feature.is_here(), feature) {
            (false, _) => reference::say(&format!("LEFT OUT, since this kernel does not have it: {feature:?}")),
            (true, Feature::BridgeVlans) => set(&mut networks[1], 0, "vlan", json!(100)),
            (true, Feature::VrfLinks) => push(&mut networks[2], json!({"type": "vrf", "vrfname": "blue"})),
            (true, Feature::DummyLinks) => networks.push(dummy()),
            (true, Feature::VlanLinks) => networks.push(on_master("vlan", json!({"vlanId": 5}))),
            (true, Feature::IpvlanLinks) => networks.push(on_master("ipvlan", json!({}))),
            (true, Feature::MacvlanLinks | Feature::Hardware) => {}
        }
    }
    if !Feature::MacvlanLinks.is_here() {
        networks.retain(|network| !matches!(network.reached_from, Some(Router::Lan(_))));
    }
    for network in &mut networks {
        let is_there = |folder: &Path| network.types().iter().all(|kind| folder.join(kind).is_file());
        network.is_for_reference &= reference.is_some_and(is_there);
    }
    networks
}

fn set(network: &mut NetworkTemplate, plugin: usize, key: &str, value: Value) {
    network.list["plugins"][plugin][key] = value;
}

fn push(network: &mut NetworkTemplate, plugin: Value) {
    network.list["plugins"].as_array_mut().expect("a list has plugins").push(plugin);
}

// The ranges of the networks are small, so that a new container soon gets the address of one that has ended.

/// Nomad's own network, with Consul's transparent proxy.
fn nomad() -> NetworkTemplate {
    let plugins = json!([
        {"type": "loopback"},
        {"type": "bridge", "bridge": "nomad", "ipMasq": true, "isGateway": true, "forceAddress": true, "hairpinMode": true,
         "ipam": {"type": "host-local", "dataDir": "/var/run/cni",
                  "ranges": [[{"subnet": "172.26.64.0/20", "rangeEnd": "172.26.64.41"}], [{"subnet": "fd00:a110:c8::/120", "rangeEnd": "fd00:a110:c8::29"}]],
                  "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "firewall", "backend": "iptables", "iptablesAdminChainName": "NOMAD-ADMIN"},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
        {"type": "consul-cni", "log_level": "info"},
    ]);
    let mut network = NetworkTemplate {
        leases: Some("/run/cni/nomad".to_owned()),
        has_ports: true,
        ..NetworkTemplate::new("nomad", plugins)
    };
    network.list["cniVersion"] = json!("0.4.0");
    network
}

/// Rules of nf_tables, traffic limits and kernel parameters.
fn sets() -> NetworkTemplate {
    let plugins = json!([
        {"type": "bridge", "bridge": "sets0", "ipMasq": true, "ipMasqBackend": "nftables", "isGateway": true,
         "hairpinMode": true, "macspoofchk": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.90.0.0/20", "rangeEnd": "10.90.0.41"}], [{"subnet": "fd00:90::/64", "rangeEnd": "fd00:90::29"}]],
                  "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}, "mtu": 1400, "txQLen": 500},
        {"type": "bandwidth", "ingressRate": 80_000_000, "ingressBurst": 8_000_000, "egressRate": 80_000_000, "egressBurst": 8_000_000},
        {"type": "firewall", "backend": "nftables"},
        {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}, "snat": true},
    ]);
    NetworkTemplate { has_ports: true, ..NetworkTemplate::new("sets", plugins) }
}

/// Routed links, without a bridge.
fn routed() -> NetworkTemplate {
    let plugins = json!([
        {"type": "ptp", "ipMasq": true, "mtu": 1450,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.92.0.0/20", "rangeEnd": "10.92.0.41"}], [{"subnet": "fd00:92::/64", "rangeEnd": "fd00:92::29"}]],
                  "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1"}},
        {"type": "bandwidth", "egressRate": 80_000_000, "egressBurst": 8_000_000},
        {"type": "firewall", "backend": "iptables"},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
    ]);
    NetworkTemplate { has_ports: true, is_for_reference: true, ..NetworkTemplate::new("routed", plugins) }
}

/// What podman and nerdctl write.
fn bridged() -> NetworkTemplate {
    let plugins = json!([
        {"type": "bridge", "bridge": "bridged0", "ipMasq": true, "isGateway": true, "hairpinMode": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.104.0.0/20", "rangeEnd": "10.104.0.41"}]],
                  "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
        {"type": "firewall", "backend": "iptables"},
        {"type": "tuning"},
    ]);
    NetworkTemplate { has_ports: true, is_for_reference: true, ..NetworkTemplate::new("bridged", plugins) }
}

/// Links on a separate LAN. Two of these networks have the same addresses.
fn lan(name: &'static str, master: &str) -> NetworkTemplate {
    let plugins = json!([
        {"type": "macvlan", "master": master,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.94.0.0/20", "rangeEnd": "10.94.0.41"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "sbr"},
    ]);
    NetworkTemplate {
        reached_from: Some(Router::Lan(name)),
        is_for_reference: true,
        ..NetworkTemplate::new(name, plugins)
    }
}

/// Devices of the host that are moved into containers, with leases of a DHCP server.
fn device(dhcp: bool) -> NetworkTemplate {
    let ipam = if dhcp {
        json!({"type": "dhcp"})
    } else {
        reference::say("LEFT OUT, since there is no dnsmasq: the plugin dhcp");
        json!({"type": "host-local", "ranges": [[{"subnet": "10.95.0.0/16"}]]})
    };
    let plugins = json!([
        {"type": "host-device", "device": DEVICE, "ipam": ipam},
    ]);
    let mut network = NetworkTemplate::new("device", plugins);
    if dhcp {
        network.leases = None;
    }
    network
}

/// The list of k3s, with changed routes. `setup` writes flannel's lease.
fn flannel() -> NetworkTemplate {
    let plugins = json!([
        {"type": "flannel",
         "delegate": {"bridge": "flannel0", "hairpinMode": true, "forceAddress": true, "isDefaultGateway": true}},
        {"type": "route-override", "addroutes": [{"dst": "198.51.100.0/24"}]},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
    ]);
    NetworkTemplate { has_ports: true, ..NetworkTemplate::new("flannel", plugins) }
}

/// Containers for virtual machines: the tap device receives their packets, and nothing answers.
fn virtual_machines() -> NetworkTemplate {
    let plugins = json!([
        {"type": "ptp", "ipMasq": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.102.0.0/20", "rangeEnd": "10.102.0.41"}], [{"subnet": "fd00:102::/64", "rangeEnd": "fd00:102::29"}]],
                  "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "route-override", "flushgateway": true, "addroutes": [{"dst": "198.51.100.0/24"}]},
        {"type": "firewall", "backend": "iptables"},
        {"type": "tc-redirect-tap", "owner": 65534, "group": 65534},
    ]);
    NetworkTemplate { reached_from: None, ..NetworkTemplate::new("machines", plugins) }
}

/// Whether the kernel supports what tc-redirect-tap needs.
fn can_redirect() -> bool {
    const PROOF: &str = "ip tuntap add dev proof mode tap; tc qdisc add dev proof ingress; \
         tc filter add dev proof parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev lo";
    // In another thread, since this one may be in another sandbox.
    let ask = || Sandbox::new().exec(&["sh", "-ec", PROOF]).code == Some(0);
    thread::spawn(ask).join().expect("ask the kernel")
}

/// A device for a program in the container. Nothing answers its packets.
fn tap() -> NetworkTemplate {
    let plugins = json!([{"type": "tap", "ipam": {"type": "static"}}]);
    NetworkTemplate { reached_from: None, leases: None, ..NetworkTemplate::new("tap", plugins) }
}

fn dummy() -> NetworkTemplate {
    let plugins = json!([{"type": "dummy", "ipam": {"type": "static"}}]);
    NetworkTemplate { reached_from: None, leases: None, ..NetworkTemplate::new("dummy", plugins) }
}

/// A link of another kind on its own master interface. Nothing sends packets to it.
fn on_master(kind: &'static str, keys: Value) -> NetworkTemplate {
    let subnet = if kind == "vlan" { "10.97.0.0/16" } else { "10.98.0.0/16" };
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": subnet}]]});
    let mut plugin = json!({"type": kind, "master": format!("{kind}m"), "ipam": ipam});
    cni_conformance::keys::set(&mut plugin, &keys);
    let plugins = json!([plugin]);
    NetworkTemplate { reached_from: None, ..NetworkTemplate::new(kind, plugins) }
}
