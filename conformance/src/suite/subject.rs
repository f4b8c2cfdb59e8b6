//! The plugins that cases are about: what each is, and a small configuration that it accepts.

use serde_json::{Value, json};

use crate::keys::with;
use crate::{Feature, plugins};

/// What a plugin is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It brings up `lo`, which every container has.
    Loopback,
    /// It brings an interface into the container, and asks an IPAM plugin for addresses.
    Interface,
    /// It works on what plugins before it have made.
    Chained,
    /// It gives addresses to other plugins.
    Ipam,
}

/// A plugin under test.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// The name of its binary.
    pub plugin: String,
    /// What it is for.
    pub kind: Kind,
    /// Whether the suite knows it, with all that its page says.
    pub known: bool,
    /// What its ADD needs of the kernel.
    pub needs: Option<Feature>,
    /// The keys of its configuration beside those that every one has.
    pub keys: Value,
}

/// The uplink that some plugins hang their interface on.
pub const UPLINK: &str = "up0";
/// The bridge of the bridge plugin.
pub const BRIDGE: &str = "br0";
/// Where host-local keeps its leases.
pub const LEASES: &str = "/run/leases";
/// What `consul-cni` cannot do without.
const CONSUL_ARGS: &str = r#"CONSUL_IPTABLES_CONFIG={"ProxyUserID":"101","ProxyInboundPort":20000}"#;

impl Subject {
    /// Returns one of the plugins that the suite knows.
    ///
    /// # Panics
    /// When it is none of them.
    pub fn of(plugin: &str) -> Self {
        let (kind, keys) = row(plugin);
        Self { plugin: plugin.to_owned(), kind, known: true, needs: plugins::needs(plugin), keys }
    }

    /// Describes a plugin that the suite does not know by a configuration of it: one with a `prevResult` is for a chained
    /// plugin, one whose `ipam` names the plugin itself for an IPAM plugin.
    pub fn foreign(plugin: &str, configuration: &Value) -> Self {
        let kind = if configuration.get("prevResult").is_some() {
            Kind::Chained
        } else if configuration["ipam"]["type"] == *plugin {
            Kind::Ipam
        } else {
            Kind::Interface
        };
        let mut keys = configuration.clone();
        if let Some(keys) = keys.as_object_mut() {
            for set_by_cases in ["cniVersion", "name", "type", "prevResult"] {
                keys.remove(set_by_cases);
            }
        }
        Self { plugin: plugin.to_owned(), kind, known: false, needs: None, keys }
    }

    /// The interface that calls are about.
    pub fn ifname(&self) -> &'static str {
        match self.kind {
            Kind::Loopback => "lo",
            Kind::Interface | Kind::Chained | Kind::Ipam => "eth0",
        }
    }

    /// `CNI_ARGS`.
    pub fn args(&self) -> &'static str {
        if self.plugin == "consul-cni" { CONSUL_ARGS } else { "" }
    }

    /// Whether its ADD works without a service beside it.
    pub fn stands_alone(&self) -> bool {
        self.plugin != "dhcp"
    }

    /// Whether it asks an IPAM plugin.
    pub fn delegates(&self) -> bool {
        self.known && self.kind == Kind::Interface
    }
}

/// The addresses of one network by host-local.
pub fn host_local() -> Value {
    json!({
        "type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": LEASES,
    })
}

fn row(plugin: &str) -> (Kind, Value) {
    let ipam = json!({"ipam": {"type": super::ipam::IPAM}});
    let on = |keys: Value| with(&ipam, &keys);
    match plugin {
        "loopback" => (Kind::Loopback, json!({})),
        "bridge" => (Kind::Interface, on(json!({"bridge": BRIDGE, "isGateway": true}))),
        "ptp" | "dummy" | "tap" => (Kind::Interface, ipam),
        "macvlan" | "ipvlan" => (Kind::Interface, on(json!({"master": UPLINK}))),
        "vlan" => (Kind::Interface, on(json!({"master": UPLINK, "vlanId": 5}))),
        "host-device" => (Kind::Interface, on(json!({"device": "ens5"}))),
        "host-local" => (Kind::Ipam, json!({"ipam": host_local()})),
        "dhcp" => (Kind::Ipam, json!({"ipam": {"type": "dhcp"}})),
        "static" => {
            let address = json!([{"address": "10.88.0.5/24", "gateway": "10.88.0.1"}]);
            let ipam = json!({"type": "static", "addresses": address, "routes": [{"dst": "0.0.0.0/0"}]});
            (Kind::Ipam, json!({"ipam": ipam}))
        }
        "firewall" => (Kind::Chained, json!({"backend": "iptables"})),
        "portmap" => {
            let mappings = json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]);
            (Kind::Chained, json!({"runtimeConfig": {"portMappings": mappings}}))
        }
        "tuning" => (Kind::Chained, json!({"mtu": 1400, "sysctl": {"net.ipv4.conf.eth0.arp_notify": "1"}})),
        "bandwidth" => {
            let (rate, burst) = (8_000_000, 160_000);
            let limits = json!({"ingressRate": rate, "ingressBurst": burst, "egressRate": rate, "egressBurst": burst});
            (Kind::Chained, limits)
        }
        "sbr" | "consul-cni" => (Kind::Chained, json!({})),
        "vrf" => (Kind::Chained, json!({"vrfname": "red"})),
        other => panic!("the suite does not know the plugin {other}"),
    }
}
