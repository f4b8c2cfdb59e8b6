//! The networks: between them, all plugins that this kernel has. What the kernel lacks is said, and left out.

use std::path::Path;
use std::thread;

use cni_conformance::{Feature, Sandbox, reference};
use serde_json::{Value, json};

/// A network, as a template of its configuration list.
#[derive(Debug)]
pub struct Network {
    pub name: &'static str,
    list: Value,
    /// The namespace from which its containers are reached; none where no packet reaches them.
    pub reached_from: Option<Router>,
    /// Where its leases are; none when its IPAM plugin keeps none.
    pub leases: Option<&'static str>,
    /// Whether host ports lead to its containers.
    pub has_ports: bool,
    /// Whether the reference has all its plugins and understands their configuration.
    pub is_for_reference: bool,
}

/// Who reaches containers without a port of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Router {
    /// The host.
    Host,
    /// The namespace behind the master of the macvlan network of this name.
    Lan(&'static str),
}

/// Stands for the device of one container in the list of host-device.
const DEVICE: &str = "DEVICE";

/// What transparent proxies of Consul ask for; the listener's port is left alone.
const CONSUL: &str = r#"{"ProxyUserID":"101","ProxyInboundPort":20000,"ProxyOutboundPort":15001,"ExcludeInboundPorts":["80"],"ExcludeOutboundPorts":[],"ExcludeOutboundCIDRs":[],"ExcludeUIDs":[]}"#;

impl Network {
    /// The configuration list for a container that gets this device, where it is about devices.
    pub fn list(&self, device: &str) -> Value {
        serde_json::from_str(&self.list.to_string().replace(DEVICE, device)).expect("a name needs no escape")
    }

    /// Tells whether each container is given a device of its own.
    pub fn needs_device(&self) -> bool {
        self.name == "device"
    }

    /// `CNI_ARGS` of a worker's container of this number.
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

/// Makes the lists, and says what this kernel cannot have.
pub fn all(dhcp: bool, reference: Option<&Path>) -> Vec<Network> {
    let mut networks =
        vec![nomad(), sets(), routed(), lan("lan", "lan0"), lan("twin", "twin0"), device(dhcp), tap(), flannel()];
    if can_redirect() {
        networks.push(guests());
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

fn set(network: &mut Network, plugin: usize, key: &str, value: Value) {
    network.list["plugins"][plugin][key] = value;
}

fn push(network: &mut Network, plugin: Value) {
    network.list["plugins"].as_array_mut().expect("a list has plugins").push(plugin);
}

/// Nomad's own, with Consul's proxy behind it.
fn nomad() -> Network {
    let list = json!({"cniVersion": "0.4.0", "name": "nomad", "plugins": [
        {"type": "loopback"},
        {"type": "bridge", "bridge": "nomad", "ipMasq": true, "isGateway": true, "forceAddress": true, "hairpinMode": true,
         "ipam": {"type": "host-local", "dataDir": "/var/run/cni",
                  "ranges": [[{"subnet": "172.26.64.0/20"}], [{"subnet": "fd00:a110:c8::/120"}]],
                  "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "firewall", "backend": "iptables", "iptablesAdminChainName": "NOMAD-ADMIN"},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
        {"type": "consul-cni", "log_level": "info"},
    ]});
    Network {
        name: "nomad",
        list,
        reached_from: Some(Router::Host),
        leases: Some("/run/cni/nomad"),
        has_ports: true,
        is_for_reference: false,
    }
}

/// Rules in sets of nf_tables, limits of traffic and kernel parameters.
fn sets() -> Network {
    let list = json!({"cniVersion": "1.0.0", "name": "sets", "plugins": [
        {"type": "bridge", "bridge": "sets0", "ipMasq": true, "ipMasqBackend": "nftables", "isGateway": true,
         "hairpinMode": true, "macspoofchk": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.90.0.0/20"}], [{"subnet": "fd00:90::/64"}]],
                  "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}, "mtu": 1400, "txQLen": 500},
        {"type": "bandwidth", "ingressRate": 80_000_000, "ingressBurst": 8_000_000, "egressRate": 80_000_000, "egressBurst": 8_000_000},
        {"type": "firewall", "backend": "nftables"},
        {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}, "snat": true},
    ]});
    Network {
        name: "sets",
        list,
        reached_from: Some(Router::Host),
        leases: Some("/var/lib/cni/networks/sets"),
        has_ports: true,
        is_for_reference: false,
    }
}

/// Routed links, without a bridge.
fn routed() -> Network {
    let list = json!({"cniVersion": "1.0.0", "name": "routed", "plugins": [
        {"type": "ptp", "ipMasq": true, "mtu": 1450,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.92.0.0/20"}], [{"subnet": "fd00:92::/64"}]],
                  "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1"}},
        {"type": "bandwidth", "egressRate": 80_000_000, "egressBurst": 8_000_000},
        {"type": "firewall", "backend": "iptables"},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
    ]});
    Network {
        name: "routed",
        list,
        reached_from: Some(Router::Host),
        leases: Some("/var/lib/cni/networks/routed"),
        has_ports: true,
        is_for_reference: true,
    }
}

/// Links on a network of their own. Two of these networks have the same addresses.
fn lan(name: &'static str, master: &str) -> Network {
    let list = json!({"cniVersion": "1.0.0", "name": name, "plugins": [
        {"type": "macvlan", "master": master,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.94.0.0/20"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "sbr"},
    ]});
    let leases = if name == "lan" { "/var/lib/cni/networks/lan" } else { "/var/lib/cni/networks/twin" };
    Network {
        name,
        list,
        reached_from: Some(Router::Lan(name)),
        leases: Some(leases),
        has_ports: false,
        is_for_reference: true,
    }
}

/// Devices of the host that go into containers, with leases of a DHCP server.
fn device(dhcp: bool) -> Network {
    let ipam = if dhcp {
        json!({"type": "dhcp"})
    } else {
        reference::say("LEFT OUT, since there is no dnsmasq: the plugin dhcp");
        json!({"type": "host-local", "ranges": [[{"subnet": "10.95.0.0/16"}]]})
    };
    let list = json!({"cniVersion": "1.0.0", "name": "device", "plugins": [
        {"type": "host-device", "device": DEVICE, "ipam": ipam},
    ]});
    let leases = (!dhcp).then_some("/var/lib/cni/networks/device");
    Network {
        name: "device",
        list,
        reached_from: Some(Router::Host),
        leases,
        has_ports: false,
        is_for_reference: false,
    }
}

/// The list of k3s, with routes that are changed behind its delegate. The setting writes the lease.
fn flannel() -> Network {
    let list = json!({"cniVersion": "1.0.0", "name": "flannel", "plugins": [
        {"type": "flannel",
         "delegate": {"bridge": "flannel0", "hairpinMode": true, "forceAddress": true, "isDefaultGateway": true}},
        {"type": "route-override", "addroutes": [{"dst": "198.51.100.0/24"}]},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
    ]});
    Network {
        name: "flannel",
        list,
        reached_from: Some(Router::Host),
        leases: Some("/var/lib/cni/networks/flannel"),
        has_ports: true,
        is_for_reference: false,
    }
}

/// Containers for virtual machines: what they receive goes to the device, behind which nothing answers.
fn guests() -> Network {
    let list = json!({"cniVersion": "1.0.0", "name": "guests", "plugins": [
        {"type": "ptp", "ipMasq": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.102.0.0/20"}], [{"subnet": "fd00:102::/64"}]],
                  "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "route-override", "flushgateway": true, "addroutes": [{"dst": "198.51.100.0/24"}]},
        {"type": "firewall", "backend": "iptables"},
        {"type": "tc-redirect-tap", "owner": 65534, "group": 65534},
    ]});
    Network {
        name: "guests",
        list,
        reached_from: None,
        leases: Some("/var/lib/cni/networks/guests"),
        has_ports: false,
        is_for_reference: false,
    }
}

/// Whether the kernel can do what tc-redirect-tap asks of it.
fn can_redirect() -> bool {
    const PROOF: &str = "ip tuntap add dev proof mode tap; tc qdisc add dev proof ingress; \
         tc filter add dev proof parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev lo";
    // A thread of its own, since the caller may have a sandbox of its own.
    let ask = || Sandbox::new().exec(&["sh", "-ec", PROOF]).code == Some(0);
    thread::spawn(ask).join().expect("ask the kernel")
}

/// A device for a program in the container; nothing answers behind it.
fn tap() -> Network {
    let list = json!({"cniVersion": "1.0.0", "name": "tap", "plugins": [{"type": "tap", "ipam": {"type": "static"}}]});
    Network { name: "tap", list, reached_from: None, leases: None, has_ports: false, is_for_reference: false }
}

fn dummy() -> Network {
    let list =
        json!({"cniVersion": "1.0.0", "name": "dummy", "plugins": [{"type": "dummy", "ipam": {"type": "static"}}]});
    Network { name: "dummy", list, reached_from: None, leases: None, has_ports: false, is_for_reference: false }
}

/// A link of another kind on a master of its own. Nobody sends to it.
fn on_master(kind: &'static str, keys: Value) -> Network {
    let subnet = if kind == "vlan" { "10.97.0.0/16" } else { "10.98.0.0/16" };
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": subnet}]]});
    let mut plugin = json!({"type": kind, "master": format!("{kind}m"), "ipam": ipam});
    cni_conformance::keys::set(&mut plugin, &keys);
    let list = json!({"cniVersion": "1.0.0", "name": kind, "plugins": [plugin]});
    let leases = if kind == "vlan" { "/var/lib/cni/networks/vlan" } else { "/var/lib/cni/networks/ipvlan" };
    Network { name: kind, list, reached_from: None, leases: Some(leases), has_ports: false, is_for_reference: false }
}
