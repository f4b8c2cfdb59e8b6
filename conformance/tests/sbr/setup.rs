//! One container with two interfaces, calls of the plugin for the second, and the output of `ip`.

use std::ops::Deref;

use cni_conformance::{ChainedHost, Container, State};
use serde_json::{Value, json};

/// A host, a router, and a container `c1`: its `eth0` leads to the host, and its `net1` to the router.
pub struct Routed {
    pub router: Container,
    behind: ChainedHost,
}

impl Deref for Routed {
    type Target = ChainedHost;

    fn deref(&self) -> &ChainedHost {
        &self.behind
    }
}

/// The result of the plugins before, for `net1`.
pub fn ips() -> Value {
    json!([
        {"address": "10.91.0.2/24", "gateway": "10.91.0.1", "interface": 1},
        {"address": "fd00:91::2/64", "gateway": "fd00:91::1", "interface": 1},
    ])
}

impl Routed {
    pub fn new() -> Self {
        let behind = ChainedHost::new("sbr", "c1").about("net1");
        let interfaces = json!([behind.interface("eth0"), behind.interface("net1")]);
        let behind = behind.reported(&json!({"interfaces": interfaces, "ips": ips()}));
        let sandbox = &behind.sandbox;
        let router = sandbox.container("router");
        sandbox.sh("ip link add host0 type veth peer name eth0 netns c1");
        sandbox.sh("ip link add host1 type veth peer name net1 netns c1");
        sandbox.sh("ip link set host1 netns router name port");
        sandbox.sh("ip address add 10.90.0.1/24 dev host0");
        sandbox.sh("ip link set host0 up");
        for line in [
            "ip link set port up",
            "ip address add 10.91.0.1/24 dev port",
            "ip address add fd00:91::1/64 dev port nodad",
            "ip address add 192.0.2.1/32 dev port",
            "ip address add 2001:db8::1/128 dev port nodad",
        ] {
            router.sh(line);
        }
        let routed = Self { router, behind };
        routed.set_up();
        routed
    }

    /// What the plugins before have made.
    fn set_up(&self) {
        for line in [
            "ip link set eth0 up",
            "ip link set net1 up",
            "ip address add 10.90.0.2/24 dev eth0",
            "ip route add default via 10.90.0.1",
            "ip address add 10.91.0.2/24 dev net1",
            "ip address add fd00:91::2/64 dev net1 nodad",
            "ip route add default via 10.91.0.1 metric 50",
            "ip route add 10.93.0.0/16 via 10.91.0.9 metric 7 mtu 1400",
            "ip route add fd00:93::/64 via fd00:91::9",
        ] {
            self.container.sh(line);
        }
    }

    /// The rules from an address and the routes of all tables, and the files of the host.
    pub fn state(&self) -> Vec<String> {
        let mut lines = self.files();
        lines.extend(self.rules());
        for family in ["-4", "-6"] {
            let routes = self.container.sh(&format!("ip {family} route show table all"));
            // The kernel makes the routes to its own addresses when it likes.
            let settled = routes.lines().filter(|line| !line.contains(" table local "));
            let mut routes: Vec<String> = settled.map(|line| line.trim_end().to_owned()).collect();
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

    /// The rules from an address.
    pub fn rules(&self) -> Vec<String> {
        let rules = ["-4", "-6"].map(|family| self.container.sh(&format!("ip {family} rule")));
        let from_address = |line: &&str| line.contains("from ") && !line.contains("from all");
        let words = |line: &str| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
        rules.iter().flat_map(|text| text.lines().filter(from_address).map(words)).collect()
    }

    /// The routes of a table, or of `net1` in the main one.
    pub fn routes(&self, family: &str, table: &str) -> Vec<String> {
        let text = self.container.sh(&format!("ip {family} route show table {table} dev net1"));
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }
}
