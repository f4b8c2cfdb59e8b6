//! One container whose `eth0` leads to a router, with addresses and routes of both families.

use std::ops::Deref;

use cni_conformance::{ChainedHost, State};
use serde_json::{Value, json};

/// A host that is the router, and the container `c1` with its interface and the result of the plugins before.
pub struct Routed {
    behind: ChainedHost,
}

impl Deref for Routed {
    type Target = ChainedHost;

    fn deref(&self) -> &ChainedHost {
        &self.behind
    }
}

/// Every key that changes a route.
pub fn all_keys() -> Value {
    json!({
        "flushroutes": true, "flushgateway": true, "delroutes": [{"dst": "10.93.0.0/16"}],
        "addroutes": [{"dst": "10.94.0.0/16"}, {"dst": "fd00:94::/64", "gw": "fd00:91::9", "mtu": 1400, "priority": 7}],
    })
}

impl Routed {
    pub fn new() -> Self {
        let behind = ChainedHost::new("route-override", "c1").about("eth0");
        let ips = json!([
            {"address": "10.91.0.2/24", "gateway": "10.91.0.1", "interface": 0},
            {"address": "fd00:91::2/64", "gateway": "fd00:91::1", "interface": 0},
        ]);
        let routes = json!([{"dst": "0.0.0.0/0"}, {"dst": "10.93.0.0/16", "gw": "10.91.0.9"}, {"dst": "::/0"}]);
        let interfaces = json!([behind.interface("eth0")]);
        let behind = behind.reported(&json!({"interfaces": interfaces, "ips": ips, "routes": routes}));
        let sandbox = &behind.sandbox;
        sandbox.sh("ip link add host0 type veth peer name eth0 netns c1");
        for line in [
            "ip link set host0 up",
            "ip address add 10.91.0.1/24 dev host0",
            "ip address add 10.94.0.1/16 dev host0",
            "ip address add fd00:91::1/64 dev host0 nodad",
        ] {
            sandbox.sh(line);
        }
        for line in [
            "ip link set eth0 up",
            "ip address add 10.91.0.2/24 dev eth0",
            "ip address add fd00:91::2/64 dev eth0 nodad",
            "ip route add default via 10.91.0.1",
            "ip route add 10.93.0.0/16 via 10.91.0.9 metric 7 mtu 1400",
            "ip -6 route add default via fd00:91::1",
        ] {
            behind.container.sh(line);
        }
        Self { behind }
    }

    /// The routes of the main table through a router.
    pub fn routes(&self) -> Vec<String> {
        let shown = ["-4", "-6"].map(|family| self.container.sh(&format!("ip {family} route show")));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        shown.iter().flat_map(|text| text.lines().map(words)).filter(|line| line.contains(" via ")).collect()
    }

    /// All routes of the container, and the files of the host without records.
    pub fn state(&self) -> Vec<String> {
        let mut lines = self.files();
        for family in ["-4", "-6"] {
            let routes = self.container.sh(&format!("ip {family} route show"));
            let mut routes: Vec<String> = routes.lines().map(|line| line.trim_end().to_owned()).collect();
            routes.sort();
            lines.extend(routes);
        }
        lines
    }

    /// The files of the host, without records.
    pub fn files(&self) -> Vec<String> {
        let lines = State::of_host(&self.sandbox).lines().into_iter();
        lines.filter(|line| line.starts_with("files: ") && !line.contains("/.cni-plugins-rs")).collect()
    }

    /// The routes of a result, as destinations.
    pub fn destinations(result: &Value) -> Vec<String> {
        let routes = result["routes"].as_array().cloned().unwrap_or_default();
        routes.iter().filter_map(|route| route["dst"].as_str().map(str::to_owned)).collect()
    }
}
