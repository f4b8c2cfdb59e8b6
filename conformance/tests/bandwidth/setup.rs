//! One container with an interface, calls of the plugin for it, and the output of `tc` on the host.

use std::ops::Deref;

use cni_conformance::{ChainedHost, State};
use serde_json::{Value, json};

/// The reference's name for the ifb of container `ctr1` in network `n1`.
pub const IFB: &str = "bwpc189d8b6a7b4";

/// A host, and a container `ctr1` whose interface `eth0` leads to the link `host0`.
pub struct Limited(ChainedHost);

impl Deref for Limited {
    type Target = ChainedHost;

    fn deref(&self) -> &ChainedHost {
        &self.0
    }
}

impl Limited {
    /// The link has the alias that bridge and ptp give it.
    pub fn new() -> Self {
        let limited = Self::without_alias();
        limited.note("host0", "eth0");
        limited
    }

    /// With a second interface `net1`, which leads to the link `host1`.
    pub fn with_second_interface() -> Self {
        let Self(behind) = Self::new();
        behind.add_interface("net1", "host1", None);
        let interfaces =
            json!([{"name": "host0"}, behind.interface("eth0"), {"name": "host1"}, behind.interface("net1")]);
        let limited = Self(behind.reported(&json!({"interfaces": interfaces})));
        limited.note("host1", "net1");
        limited
    }

    /// Gives a link of the host the alias of the interface that it leads to.
    pub fn note(&self, link: &str, ifname: &str) {
        self.sandbox.sh(&format!("ip link set {link} alias cni:n1:ctr1:{ifname}"));
    }

    pub fn without_alias() -> Self {
        let behind = ChainedHost::new("bandwidth", "ctr1");
        behind.add_interface("eth0", "host0", None);
        let interfaces = json!({"interfaces": [{"name": "host0"}, behind.interface("eth0")]});
        Self(behind.reported(&interfaces))
    }

    /// All that the plugin can leave, on both sides.
    pub fn state(&self) -> Vec<String> {
        let mut lines = State::capture(&self.sandbox, &[&self.container]).lines();
        // They say much, and nothing that the plugin changes.
        lines.retain(|line| !line.contains(" settings: ") && !line.contains("tables "));
        lines.extend(self.traffic_control());
        lines
    }

    /// What `tc` prints about the host. The kernel's own disciplines have no handle.
    pub fn traffic_control(&self) -> Vec<String> {
        let qdiscs = self.sandbox.sh("tc qdisc show");
        let own = qdiscs.lines().filter(|line| line.split(' ').nth(2).is_none_or(|handle| handle != "0:"));
        let mut lines: Vec<String> = own.map(|line| line.trim_end().to_owned()).collect();
        for link in self.links("veth") {
            let filters = self.sandbox.sh(&format!("tc filter show dev {link} ingress"));
            lines.extend(filters.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("{link}: {line}")));
        }
        lines
    }

    /// The links of a kind on the host.
    pub fn links(&self, kind: &str) -> Vec<String> {
        let text = self.sandbox.sh(&format!("ip -json link show type {kind}"));
        let links: Value = serde_json::from_str(&text).expect("ip tells JSON");
        let name = |link: &Value| Some(link["ifname"].as_str()?.to_owned());
        links.as_array().expect("a list").iter().filter_map(name).collect()
    }

    /// What `tc` prints about the token bucket of a link.
    pub fn bucket(&self, link: &str) -> String {
        let line = self.sandbox.sh(&format!("tc qdisc show dev {link} root"));
        line.trim().to_owned()
    }
}

/// Both directions, at 1 and 2 megabytes a second.
pub fn both() -> Value {
    json!({"ingressRate": 8_000_000, "ingressBurst": 160_000, "egressRate": 16_000_000, "egressBurst": 160_000})
}

/// What the container sends alone.
pub fn sending() -> Value {
    json!({"egressRate": 16_000_000, "egressBurst": 160_000})
}
