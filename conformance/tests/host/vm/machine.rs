//! A container whose interface is led into a guest, as `tc-redirect-tap` does it, and a runtime for such lists.

use std::net::IpAddr;

use cni_conformance::{Attachment, Container, Network, Runtime, Sandbox, Verb};
use serde_json::{Value, json};

/// The `type` in lists of what is not ours.
pub const TAP: &str = "tc-redirect-tap";

/// The container's ID, which is also that of the guest.
pub const ID: &str = "vm1";

/// A host, the container's namespace, and the guest.
pub struct Machine {
    pub container: Container,
    pub guest: Container,
    pub sandbox: Sandbox,
}

/// What the monitor of a guest reads in the result.
pub struct GuestConfig {
    pub mac: String,
    /// With the length of its prefix.
    pub address: String,
    pub gateway: IpAddr,
}

impl Machine {
    pub fn new() -> Self {
        let sandbox = Sandbox::new();
        Self { container: sandbox.container("c1"), guest: sandbox.container("guest"), sandbox }
    }

    pub fn attachment(&self) -> Attachment {
        Attachment::new(ID, &self.container)
    }

    /// Runs ADD of a list, and starts the guest at the end.
    ///
    /// # Panics
    /// When a plugin fails, or the guest cannot be configured from the result.
    #[track_caller]
    pub fn add(&self, list: &Value, attachment: &mut Attachment) -> Value {
        let runtime = Runtime::new(&self.sandbox, list.clone());
        let step = |previous: Option<Value>, kind: &str| {
            Some(match (kind, &previous) {
                (TAP, Some(result)) => self.lead_to_guest(attachment, result),
                (kind, _) => runtime.invocation(Verb::Add, kind, attachment, previous.as_ref()).run().result(),
            })
        };
        let result = kinds(list).into_iter().fold(None, step).expect("a list has plugins");
        attachment.result = Some(result.clone());
        self.start_guest(&result);
        result
    }

    /// Runs CHECK of every plugin with the whole result.
    #[track_caller]
    pub fn check(&self, list: &Value, attachment: &Attachment) {
        let runtime = Runtime::new(&self.sandbox, list.clone());
        for kind in kinds(list).into_iter().filter(|kind| *kind != TAP) {
            runtime.invocation(Verb::Check, kind, attachment, attachment.result.as_ref()).run().expect_success();
        }
    }

    /// Runs DEL of every plugin, the last one first.
    #[track_caller]
    pub fn del(&self, list: &Value, attachment: &Attachment) {
        let runtime = Runtime::new(&self.sandbox, list.clone());
        for kind in kinds(list).into_iter().rev() {
            if kind == TAP {
                // Gone already is as good.
                self.container.exec(&["tc", "qdisc", "del", "dev", &attachment.ifname, "ingress"]);
                self.container.exec(&["ip", "link", "del", "tap0"]);
            } else {
                runtime.invocation(Verb::Del, kind, attachment, attachment.result.as_ref()).run().expect_success();
            }
        }
    }

    /// Adds the queueing discipline and the filters, each of which must be new; answers with the larger result.
    #[track_caller]
    pub fn lead_to_guest(&self, attachment: &Attachment, result: &Value) -> Value {
        let link = self.link(&attachment.ifname);
        self.container.sh(&format!("ip link add tap0 type veth peer name eth0 address {} netns guest", link.mac));
        self.container.sh(&format!("ip link set tap0 mtu {} up", link.mtu));
        self.guest.sh(&format!("ip link set eth0 mtu {}", link.mtu));
        for (from, to) in [(attachment.ifname.as_str(), "tap0"), ("tap0", attachment.ifname.as_str())] {
            self.container.sh(&format!("tc qdisc add dev {from} ingress"));
            self.container.sh(&format!(
                "tc filter add dev {from} parent ffff: protocol all u32 match u8 0 0 action mirred egress redirect dev {to}"
            ));
        }
        with_guest(attachment, result, &link.mac)
    }

    pub fn link(&self, name: &str) -> cni_conformance::network::Link {
        Network::observe(&self.container).link(name).unwrap_or_else(|| panic!("no {name}")).clone()
    }

    /// Configures the guest from the result alone, as its monitor does.
    fn start_guest(&self, result: &Value) {
        let GuestConfig { mac, address, gateway } = guest_config(result);
        self.guest.sh("ip link set lo up");
        self.guest.sh(&format!("ip link set eth0 address {mac} up"));
        self.guest.sh(&format!("ip addr add {address} dev eth0"));
        for route in result["routes"].as_array().into_iter().flatten() {
            let via = route["gw"].as_str().map_or_else(|| gateway.to_string(), str::to_owned);
            let to = route["dst"].as_str().expect("a route has a destination");
            self.guest.sh(&format!("ip route replace {to} via {via}"));
        }
    }
}

fn kinds(list: &Value) -> Vec<&str> {
    let plugins = list["plugins"].as_array().expect("a configuration list has plugins");
    plugins.iter().map(|plugin| plugin["type"].as_str().expect("a plugin has a type")).collect()
}

/// The addresses of the container's interface, found as `tc-redirect-tap` finds them: by name and namespace, to the byte.
pub fn addresses(attachment: &Attachment, result: &Value) -> Vec<Value> {
    let interfaces = result["interfaces"].as_array().expect("interfaces");
    let is_own = |ip: &&Value| {
        let index = ip["interface"].as_u64().and_then(|index| usize::try_from(index).ok());
        let interface = index.map(|index| interfaces.get(index).unwrap_or_else(|| panic!("index {index}: {result:#}")));
        interface.is_some_and(|one| one["name"] == *attachment.ifname && one["sandbox"] == *attachment.netns)
    };
    result["ips"].as_array().expect("addresses").iter().filter(is_own).cloned().collect()
}

/// Adds the tap, and the guest with its own copy of each address.
fn with_guest(attachment: &Attachment, result: &Value, mac: &str) -> Value {
    let copies = addresses(attachment, result);
    assert!(!copies.is_empty(), "the guest gets no address: {result:#}");
    let mut result = result.clone();
    let interfaces = result["interfaces"].as_array_mut().expect("interfaces");
    interfaces.push(json!({"name": "tap0", "sandbox": attachment.netns}));
    interfaces.push(json!({"name": "tap0", "sandbox": attachment.container_id, "mac": mac}));
    let index = interfaces.len() - 1;
    let ips = result["ips"].as_array_mut().expect("addresses");
    ips.extend(copies.into_iter().map(|mut copy| {
        copy["interface"] = json!(index);
        copy
    }));
    result
}

/// The one address of the entry whose sandbox is the guest.
#[track_caller]
pub fn guest_config(result: &Value) -> GuestConfig {
    let interfaces = result["interfaces"].as_array().expect("interfaces");
    let index = interfaces.iter().position(|one| one["sandbox"] == ID).expect("an entry of the guest");
    let ips = result["ips"].as_array().expect("addresses").iter().filter(|ip| ip["interface"] == index);
    let [ip] = ips.collect::<Vec<_>>()[..] else { panic!("one address: {result:#}") };
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text: {result:#}")).to_owned();
    let gateway = text(&ip["gateway"]).parse().expect("a gateway");
    GuestConfig { mac: text(&interfaces[index]["mac"]), address: text(&ip["address"]), gateway }
}

/// Where the addresses come from.
pub fn ipams() -> [(&'static str, Value); 2] {
    let routes = json!([{"dst": "0.0.0.0/0"}]);
    [
        ("host-local", json!({"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": routes})),
        (
            "static",
            json!({
                "type": "static", "routes": routes,
                "addresses": [{"address": "10.88.0.2/24", "gateway": "10.88.0.1"}],
            }),
        ),
    ]
}

/// A bridge with everything that guests need.
pub fn bridge(ipam: &Value) -> Value {
    json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": ipam})
}

pub fn list(version: &str, plugins: Value) -> Value {
    json!({"cniVersion": version, "name": "fcnet", "plugins": plugins})
}
