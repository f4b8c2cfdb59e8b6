//! The machine of one case: a sandbox with one container, and the plugin under test about to be called.
//!
//! For a chained plugin the container has an interface, made without any plugin; for one that asks an IPAM plugin there is a
//! [stand-in](super::ipam), so that a case sees what it is asked and says what it answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::keys::with;
use crate::state::{State, diff};
use crate::{Container, Invocation, Namespace, Network, Sandbox, Verb, binaries};

use super::judge::{Judge, Mismatch, Verdict};
use super::subject::{DEVICE, Kind, Subject, UPLINK};
use super::version::SpecVersion;

/// The type of the stand-in.
pub const IPAM: &str = "cni-conformance-ipam";

/// Where plugins of this program are.
const OWN_PLUGINS: &str = "/run/conformance/cni";

/// The address that a container has, or that the stand-in gives.
pub const ADDRESS: &str = "10.88.0.5/24";
/// The router of that network.
pub const GATEWAY: &str = "10.88.0.1";

/// The host's bridge, and its end of the cable to the container of a chained plugin.
pub const HOST_BRIDGE: &str = "br9";
pub const HOST_END: &str = "veth9";

/// The machine of one case.
#[derive(Debug)]
pub struct PrivateHost {
    /// Namespaces and files.
    pub sandbox: Sandbox,
    /// The container that calls are about unless they say otherwise.
    pub container: Container,
    /// The plugin under test.
    pub subject: Arc<Subject>,
    /// The version of configurations.
    pub version: SpecVersion,
}

impl PrivateHost {
    /// Makes the machine.
    ///
    /// # Panics
    /// When the kernel or a program of the machine refuses.
    pub fn new(subject: Arc<Subject>, version: SpecVersion) -> Self {
        let sandbox = Sandbox::new();
        let container = sandbox.container("ctr1");
        let host = Self { sandbox, container, subject, version };
        super::ipam::install(Path::new(OWN_PLUGINS), &host.ipam_result());
        host.make_links();
        if host.subject.kind == Kind::Chained {
            host.connect(&host.container, 5);
        }
        host
    }

    fn make_links(&self) {
        let lines = match self.subject.plugin.as_str() {
            "macvlan" | "ipvlan" | "vlan" => {
                vec![format!("ip link add {UPLINK} type bridge"), format!("ip link set {UPLINK} up")]
            }
            "host-device" => {
                vec![format!("ip link add {DEVICE} type veth peer name far"), "ip link set far up".to_owned()]
            }
            _ => Vec::new(),
        };
        for line in lines {
            self.sandbox.sh(&line);
        }
    }

    /// Gives a container the interface `eth0` on a bridge, with the address `10.88.0.N`.
    ///
    /// # Panics
    /// When `ip` fails.
    pub fn connect(&self, container: &Namespace, number: u8) {
        if Network::observe(self.sandbox.host()).link(HOST_BRIDGE).is_none() {
            self.sandbox.sh(&format!("ip link add {HOST_BRIDGE} type bridge"));
            self.sandbox.sh(&format!("ip link set {HOST_BRIDGE} up"));
            self.sandbox.sh(&format!("ip address add {GATEWAY}/24 dev {HOST_BRIDGE}"));
        }
        let end = host_end(number);
        let name = container.name();
        self.sandbox.sh(&format!("ip link add {end} type veth peer name eth0 netns {name}"));
        self.sandbox.sh(&format!("ip link set {end} master {HOST_BRIDGE} up"));
        container.sh("ip link set lo up");
        container.sh("ip link set eth0 up");
        container.sh(&format!("ip address add 10.88.0.{number}/24 dev eth0"));
        container.sh(&format!("ip route add default via {GATEWAY}"));
    }

    /// Returns what the plugins before a chained one would have answered about a container that [`connect`](Self::connect)
    /// has connected.
    pub fn result_before(&self, container: &Namespace, number: u8) -> Value {
        let mac = |namespace: &Namespace, name: &str| {
            Network::observe(namespace).link(name).map(|link| link.mac.clone()).unwrap_or_default()
        };
        let host = self.sandbox.host();
        let end = host_end(number);
        let interfaces = json!([
            {"name": HOST_BRIDGE, "mac": mac(host, HOST_BRIDGE)},
            {"name": end, "mac": mac(host, &end)},
            {"name": "eth0", "mac": mac(container, "eth0"), "sandbox": container.path()},
        ]);
        let ip = json!({"interface": 2, "address": format!("10.88.0.{number}/24"), "gateway": GATEWAY});
        let routes = json!([{"dst": "0.0.0.0/0", "gw": GATEWAY}]);
        let result = json!({"cniVersion": self.version.as_str(), "interfaces": interfaces, "routes": routes});
        with(&result, &json!({"ips": [self.with_ip_version(&ip)]}))
    }

    /// What the stand-in answers.
    fn ipam_result(&self) -> Value {
        let ip = self.with_ip_version(&json!({"address": ADDRESS, "gateway": GATEWAY}));
        let dns = json!({"nameservers": ["10.88.0.53"], "search": ["example.org"]});
        json!({"cniVersion": self.version.as_str(), "ips": [ip], "routes": [{"dst": "0.0.0.0/0"}], "dns": dns})
    }

    /// The entry of an address as the version writes it.
    pub fn with_ip_version(&self, ip: &Value) -> Value {
        match self.version {
            SpecVersion::V0_4_0 => with(ip, &json!({"version": "4"})),
            SpecVersion::V1_0_0 | SpecVersion::V1_1_0 => ip.clone(),
        }
    }

    /// Returns a configuration that the plugin accepts, for the container of this machine.
    pub fn config(&self) -> Value {
        let about = json!({"cniVersion": self.version.as_str(), "name": "n1", "type": self.subject.plugin});
        let mut config = with(&about, &self.subject.keys);
        if self.subject.kind == Kind::Chained {
            config["prevResult"] = self.result_before(&self.container, 5);
        }
        config
    }

    /// Returns the configuration with the result of ADD, as for CHECK and DEL.
    pub fn config_with(&self, result: &Value) -> Value {
        with(&self.config(), &json!({"prevResult": result}))
    }

    /// Returns the configuration as for GC and STATUS.
    pub fn config_of_network(&self) -> Value {
        let mut config = self.config();
        if let Some(keys) = config.as_object_mut() {
            keys.remove("prevResult");
        }
        config
    }

    /// Prepares a call about the container with a configuration that the plugin accepts.
    pub fn call(&self, verb: Verb) -> Invocation {
        self.call_for(verb, "ctr1", self.container.path()).config(&self.config())
    }

    /// Prepares a call about any container.
    pub fn call_for(&self, verb: Verb, id: &str, netns: &str) -> Invocation {
        let call = Invocation::new(&self.sandbox, &self.subject.plugin, verb).path(&self.search_path());
        let call = call.container_id(id).netns(netns).ifname(self.subject.ifname());
        if self.subject.args().is_empty() { call } else { call.args(self.subject.args()) }
    }

    /// Prepares a call about the network, without any of a container's variables.
    pub fn call_network(&self, verb: Verb) -> Invocation {
        let call = Invocation::new(&self.sandbox, &self.subject.plugin, verb).path(&self.search_path());
        call.without_env("CNI_CONTAINERID").without_env("CNI_IFNAME").config(&self.config_of_network())
    }

    /// `CNI_PATH`: the folder under test, and that of the stand-in.
    fn search_path(&self) -> String {
        format!("{}:{OWN_PLUGINS}", binaries::under_test().display())
    }

    /// Runs ADD.
    ///
    /// # Errors
    /// When it does not succeed with an object.
    pub fn add(&self) -> Result<Value, Mismatch> {
        self.call(Verb::Add).run().must_print_object()
    }

    /// Runs CHECK of what ADD answered.
    ///
    /// # Errors
    /// When it does not succeed.
    pub fn check(&self, result: &Value) -> Verdict {
        self.call(Verb::Check).config(&self.config_with(result)).run().must_succeed().map(drop)
    }

    /// Runs DEL of what ADD answered.
    ///
    /// # Errors
    /// When it does not succeed.
    pub fn del(&self, result: &Value) -> Verdict {
        self.call(Verb::Del).config(&self.config_with(result)).run().must_succeed().map(drop)
    }

    /// Takes a snapshot of the host and the container.
    pub fn state(&self) -> State {
        State::capture(&self.sandbox, &[&self.container])
    }

    /// Returns what changed on the host and in the container.
    pub fn changes_since(&self, before: &State) -> Vec<String> {
        diff(before, &self.state())
    }

    /// Returns the folder with the plugins under test.
    pub fn plugins(&self) -> PathBuf {
        binaries::under_test()
    }

    /// Returns the calls of the stand-in so far, in their order.
    pub fn ipam_calls(&self) -> Vec<super::ipam::Call> {
        super::ipam::calls()
    }

    /// Writes a file below the folders that a sandbox has for itself.
    ///
    /// # Panics
    /// When that fails.
    pub fn write(&self, path: &str, text: &str) {
        fs::write(path, text).unwrap_or_else(|error| panic!("write {path}: {error}"));
    }
}

/// The host's end of the cable to a container that was connected by number.
pub fn host_end(number: u8) -> String {
    format!("{HOST_END}{number}")
}
