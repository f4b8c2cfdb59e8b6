//! One plugin's ADD and DEL, with different configurations, on a machine on which all is there that containers share.

use cni_catalog::{PluginKind, test_data};
use cni_conformance::keys::{put, with};
use cni_conformance::{Container, Flavour, Invocation, Sandbox, State, Verb, flannel, plugins, state};
use serde_json::{Value, json};

/// What changes with each ADD and belongs to no container: where the next address is looked for, the age of the index of leases, and
/// empty files that are locked.
const CHANGING: [&str; 3] = ["/last_reserved_ip.", "/.cni-plugins-rs/stamp", "/run/cni/.cni-plugins-rs/filter-"];

/// The machine, a container, and the plugin with its configuration.
pub struct ChangedKeysHost {
    sandbox: Sandbox,
    container: Container,
    plugin: String,
    config: Value,
    previous: Option<Value>,
}

impl ChangedKeysHost {
    /// Prepares the machine, and for a chained plugin what comes before it. `beside` are keys of the configuration.
    pub fn new(plugin: &str, flavour: Flavour, beside: &Value) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        for master in ["up0", "up1"] {
            sandbox.sh(&format!("ip link add {master} type bridge"));
            sandbox.sh(&format!("ip link set {master} up"));
        }
        for (device, far, mac) in [("ens1", "far1", "02:00:00:00:00:01"), ("ens2", "far2", "02:00:00:00:00:02")] {
            sandbox.sh(&format!("ip link add {device} address {mac} type veth peer name {far}"));
        }
        sandbox.sh("iptables --wait -t nat -N OTHER-MARK");
        flannel::write_lease(&flannel::lease("10.88.0.0/16", "10.88.0.1/24", 1450));
        let container = sandbox.container("ctr1");
        let config = with(&with(&json!({"cniVersion": "1.0.0", "name": "n1", "type": plugin}), &keys(plugin)), beside);
        let mut machine = Self { sandbox, container, plugin: plugin.to_owned(), config, previous: None };
        machine.previous = is_chained(plugin).then(|| machine.result_of_bridge());
        machine
    }

    fn result_of_bridge(&self) -> Value {
        let config = with(&json!({"cniVersion": "1.0.0", "name": "n1", "type": "bridge"}), &keys("bridge"));
        self.call("bridge", Verb::Add, &config).run().result()
    }

    fn call(&self, plugin: &str, verb: Verb, config: &Value) -> Invocation {
        let call = Invocation::new(&self.sandbox, plugin, verb);
        call.container_id("ctr1").netns(self.container.path()).config(config)
    }

    /// The configuration with a key's value, or without it.
    fn config(&self, pointer: &str, value: &Value) -> Value {
        let mut config = self.config.clone();
        put(&mut config, pointer, value.clone());
        config
    }

    /// ADD, and DEL with another configuration. Returns nothing of ADD.
    fn live(&self, at_add: &Value, at_del: &Value) {
        let previous = self.previous.clone().map_or_else(|| json!({}), |previous| json!({"prevResult": previous}));
        let result = self.call(&self.plugin, Verb::Add, &with(at_add, &previous)).run().result();
        let at_del = with(at_del, &json!({"prevResult": result}));
        self.call(&self.plugin, Verb::Del, &at_del).run().expect_success();
    }

    /// Requires that a DEL with another value of a key removes all that ADD has made. An ADD and a DEL with the same value have
    /// made what containers share.
    #[track_caller]
    pub fn assert_nothing_is_left(&self, pointer: &str, at_add: &Value, at_del: &Value) {
        let [at_add, at_del] = [at_add, at_del].map(|value| self.config(pointer, value));
        self.live(&at_add, &at_add);
        let before = self.state();
        self.live(&at_add, &at_del);
        let left = state::differences(&before, &self.state());
        assert!(left.is_empty(), "{}", left.join("\n"));
    }

    /// The machine's state, and what a snapshot leaves out of it: properties of links, traffic control and rules of routing.
    fn state(&self) -> Vec<String> {
        let mut lines = State::capture(&self.sandbox, &[&self.container]).lines();
        lines.retain(|line| !CHANGING.iter().any(|changing| line.contains(changing)));
        let outside = ["tc qdisc show", "ip -o -d link show type ifb"];
        let inside = [
            "ip -o -d link show",
            "ip rule show",
            "ip -6 rule show",
            "cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/ip_default_ttl",
        ];
        lines.extend(outside.iter().flat_map(|line| text(&self.sandbox.sh(line))));
        lines.extend(inside.iter().flat_map(|line| text(&self.container.sh(line))));
        lines
    }
}

fn text(output: &str) -> Vec<String> {
    output.lines().map(str::to_owned).collect()
}

fn is_chained(plugin: &str) -> bool {
    plugins::kind(plugin) == PluginKind::Chained
}

/// A configuration in which each key of the table can have its values.
fn keys(plugin: &str) -> Value {
    let ipam =
        json!({"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]});
    match plugin {
        "bridge" => json!({"bridge": "br7", "isGateway": true, "ipam": ipam}),
        "host-device" => json!({"device": "ens1"}),
        "macvlan" | "ipvlan" => json!({"master": "up0", "ipam": ipam}),
        "vlan" => json!({"master": "up0", "vlanId": 5, "ipam": ipam}),
        "ptp" | "tap" | "host-local" => json!({"ipam": ipam}),
        "portmap" => json!({
            "backend": "iptables",
            "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
        }),
        "vrf" => json!({"vrfname": "red"}),
        _ if test_data(plugin).changed.is_empty() => json!({}),
        _ => with(&json!({"ipam": ipam}), &test_data(plugin).real),
    }
}
