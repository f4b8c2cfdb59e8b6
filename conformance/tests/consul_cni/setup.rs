//! One container with an interface, and calls of the plugin about it.

use cni_conformance::keys::with;
use cni_conformance::{Container, Flavour, Invocation, Outcome, Sandbox, State, Verb};
use serde_json::{Value, json};

/// The address of the container.
pub const ADDRESS: &str = "10.87.0.2";

/// What Nomad sends for a group with the defaults.
pub fn nomads() -> Value {
    json!({
        "ConsulDNSIP": "192.168.1.117", "ConsulDNSPort": 8600, "ProxyUserID": "101", "ProxyInboundPort": 25018,
        "ProxyOutboundPort": 15001, "ExcludeInboundPorts": ["9002"], "ExcludeOutboundPorts": null,
        "ExcludeOutboundCIDRs": null, "ExcludeUIDs": null, "NetNS": "/var/run/netns/c1", "IptablesProvider": null,
    })
}

/// `CNI_ARGS` with this object, as Nomad sends them.
pub fn args(argument: &Value) -> String {
    let consul = argument.to_string();
    cni_conformance::nomad::args("8c0b0b7f", "api", &[("CONSUL_IPTABLES_CONFIG", &consul)])
}

/// The table without policies, in the order in which iptables prints it.
pub fn rules(container: &Container) -> Vec<String> {
    let text = container.sh("iptables --wait -t nat -S");
    text.lines().filter(|line| !line.starts_with("-P")).map(str::to_owned).collect()
}

/// A host, and a container `c1` whose interface `eth0` leads to the link `host0`.
pub struct Mesh {
    pub container: Container,
    pub sandbox: Sandbox,
}

impl Mesh {
    pub fn new(flavour: Flavour) -> Self {
        let sandbox = Sandbox::with_flavour(flavour);
        let container = sandbox.container("c1");
        sandbox.sh("ip link add host0 type veth peer name eth0 netns c1");
        sandbox.sh("ip addr add 10.87.0.1/24 dev host0");
        sandbox.sh("ip link set host0 up");
        container.sh("ip link set lo up");
        container.sh(&format!("ip addr add {ADDRESS}/24 dev eth0"));
        container.sh("ip link set eth0 up");
        container.sh("ip route add default via 10.87.0.1");
        Self { container, sandbox }
    }

    pub fn config(&self) -> Value {
        let interfaces = json!([{"name": "host0"}, {"name": "eth0", "sandbox": self.container.path()}]);
        let ip = json!({"version": "4", "interface": 1, "address": format!("{ADDRESS}/24"), "gateway": "10.87.0.1"});
        let result = json!({"cniVersion": "0.4.0", "interfaces": interfaces, "ips": [ip], "dns": {}});
        json!({
            "cniVersion": "0.4.0", "name": "nomad", "type": "consul-cni", "log_level": "debug", "prevResult": result,
        })
    }

    /// Prepares a call with this argument, and some keys of the configuration.
    pub fn call(&self, verb: Verb, argument: &Value, keys: &Value) -> Invocation {
        let call = Invocation::new(&self.sandbox, "consul-cni", verb).container_id("c1").netns(self.container.path());
        call.args(&args(argument)).config(&with(&self.config(), keys))
    }

    #[track_caller]
    pub fn run(&self, verb: Verb, argument: &Value) -> Outcome {
        self.call(verb, argument, &json!({})).run()
    }

    /// Runs commands that must succeed.
    #[track_caller]
    pub fn succeeds(&self, verbs: &[Verb], argument: &Value) {
        for verb in verbs {
            self.run(*verb, argument).expect_success();
        }
    }

    pub fn rules(&self) -> Vec<String> {
        rules(&self.container)
    }

    /// All that the plugin could change.
    pub fn state(&self) -> State {
        State::capture(&self.sandbox, &[&self.container]).with_nat_of(&self.container)
    }
}
