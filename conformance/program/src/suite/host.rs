//! The machine of one case: a sandbox with containers, and the plugin under test.
//!
//! For a chained plugin each container has an interface, made without any plugin. For a plugin that calls an IPAM
//! plugin there is a [stand-in](super::ipam): a case sees its input and sets its answer.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use cni_conformance::keys::with;
use cni_conformance::plugin::Outcome;
use cni_conformance::state::{State, differences};
use cni_conformance::{Attachment, Container, Invocation, Loss, Namespace, Network, Sandbox, Verb, binaries, flannel};

use super::judge::{CaseVerdict, JudgeOutcome, Mismatch, require, unchanged};
use super::subject::{PluginKind, PluginUnderTest, UPLINK};
use super::version::SpecVersion;
use super::{ipam, settled};

/// The router of the containers' network.
pub const GATEWAY: &str = "10.88.0.1";
/// The host's bridge of chained plugins' containers.
pub const HOST_BRIDGE: &str = "br9";

/// The hardware address of the host's own links.
const HOST_MAC: &str = "02:00:00:00:00:01";

/// The time limit for the kernel to clean up after a namespace.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A container that calls are about.
#[derive(Debug, Clone)]
pub struct CaseContainer {
    /// Its namespace; the name is the container's ID.
    pub container: Container,
    /// The last byte of its address.
    pub number: u8,
    /// The made-up result of the plugins before a chained one.
    pub previous: Option<Value>,
}

/// The machine of one case.
#[derive(Debug)]
pub struct PrivateHost {
    /// Namespaces and files.
    pub sandbox: Sandbox,
    /// The container `ctr1`, which calls are about unless they say otherwise.
    pub guest: CaseContainer,
    /// The plugin under test.
    pub subject: Arc<PluginUnderTest>,
    /// The version of configurations.
    pub version: SpecVersion,
}

impl CaseContainer {
    /// Its address with the length of the network's prefix.
    pub fn address(&self) -> String {
        format!("10.88.0.{}/24", self.number)
    }

    /// The host's end of its cable, for a chained plugin.
    pub fn host_end(&self) -> String {
        format!("veth9{}", self.number)
    }

    /// The hardware address of its interface, where it is not the plugin that makes it.
    pub fn mac(&self) -> String {
        format!("02:00:00:00:01:{:02x}", self.number)
    }

    /// The MAC address of the host's end.
    pub fn host_mac(&self) -> String {
        format!("02:00:00:00:02:{:02x}", self.number)
    }

    /// The interface of the host that host-device takes for it.
    pub fn device(&self) -> String {
        format!("ens{}", self.number)
    }
}

impl PrivateHost {
    /// Makes the machine.
    ///
    /// # Panics
    /// When the kernel or a program of the machine refuses.
    pub fn new(subject: Arc<PluginUnderTest>, version: SpecVersion) -> Self {
        let sandbox = Sandbox::new();
        let guest = CaseContainer { container: sandbox.container("ctr1"), number: 5, previous: None };
        let mut host = Self { sandbox, guest, subject, version };
        host.make_host_links();
        ipam::install();
        host.guest.previous = host.prepare(&host.guest);
        host
    }

    /// Makes another container.
    ///
    /// # Panics
    /// As [`PrivateHost::new`].
    pub fn another(&self, id: &str, number: u8) -> CaseContainer {
        let mut guest = CaseContainer { container: self.sandbox.container(id), number, previous: None };
        guest.previous = self.prepare(&guest);
        guest
    }

    /// The bridge of chained plugins' containers, or the uplink of plugins that need one.
    fn make_host_links(&self) {
        match (self.subject.kind, self.subject.plugin.as_str()) {
            (PluginKind::Chained, _) => ip(
                self.sandbox.host(),
                &[
                    format!("link add {HOST_BRIDGE} address {HOST_MAC} type bridge"),
                    format!("link set {HOST_BRIDGE} up"),
                    format!("address add {GATEWAY}/24 dev {HOST_BRIDGE}"),
                ],
            ),
            (_, "flannel") => flannel::write_lease(&flannel::lease("10.88.0.0/16", "10.88.0.1/24", 1450)),
            (_, "macvlan" | "ipvlan" | "vlan") => ip(
                self.sandbox.host(),
                &[format!("link add {UPLINK} address {HOST_MAC} type bridge"), format!("link set {UPLINK} up")],
            ),
            _ => {}
        }
    }

    /// Returns what plugins before a chained one would have answered.
    fn prepare(&self, guest: &CaseContainer) -> Option<Value> {
        match (self.subject.kind, self.subject.plugin.as_str()) {
            (PluginKind::Chained, _) => {
                self.connect(guest);
                return Some(self.result_before(guest));
            }
            // The kernel gives it its address when it comes up for the first time.
            (PluginKind::Loopback, _) => {
                ip(&guest.container, &["link set lo up".to_owned(), "link set lo down".to_owned()]);
            }
            (_, "host-device") => {
                let (device, mac, number) = (guest.device(), guest.mac(), guest.number);
                ip(
                    self.sandbox.host(),
                    &[
                        format!("link add {device} address {mac} type veth peer name far{number}"),
                        format!("link set far{number} up"),
                    ],
                );
            }
            _ => {}
        }
        None
    }

    /// Gives a container the interface `eth0` on the host's bridge, as plugins before a chained one do.
    fn connect(&self, guest: &CaseContainer) {
        let CaseContainer { container, number, previous: _ } = guest;
        let (end, mac, name, far) = (guest.host_end(), guest.host_mac(), container.name(), guest.mac());
        ip(
            self.sandbox.host(),
            &[
                format!("link add {end} address {mac} type veth peer name eth0 address {far} netns {name}"),
                format!("link set {end} master {HOST_BRIDGE} up"),
            ],
        );
        ip(
            container,
            &[
                "link set lo up".to_owned(),
                "link set eth0 up".to_owned(),
                format!("address add 10.88.0.{number}/24 dev eth0"),
                format!("route add default via {GATEWAY}"),
            ],
        );
    }

    fn result_before(&self, guest: &CaseContainer) -> Value {
        let interfaces = json!([
            {"name": HOST_BRIDGE, "mac": HOST_MAC},
            {"name": guest.host_end(), "mac": guest.host_mac()},
            {"name": "eth0", "mac": guest.mac(), "sandbox": guest.container.path()},
        ]);
        let ip = json!({"interface": 2, "address": guest.address(), "gateway": GATEWAY});
        json!({
            "cniVersion": self.version.as_str(),
            "interfaces": interfaces,
            "ips": [self.ip_entry(&ip)],
            "routes": [{"dst": "0.0.0.0/0", "gw": GATEWAY}],
            "dns": {"nameservers": ["10.88.0.53"]},
        })
    }

    /// The stand-in's answer for a container.
    pub fn ipam_result(&self, guest: &CaseContainer) -> Value {
        let ip = self.ip_entry(&json!({"address": guest.address(), "gateway": GATEWAY}));
        let dns = json!({"nameservers": ["10.88.0.53"], "search": ["example.org"]});
        json!({"cniVersion": self.version.as_str(), "ips": [ip], "routes": [{"dst": "0.0.0.0/0"}], "dns": dns})
    }

    /// The entry of an address as the version writes it.
    fn ip_entry(&self, ip: &Value) -> Value {
        match self.version {
            SpecVersion::V0_4_0 => with(ip, &json!({"version": "4"})),
            SpecVersion::V1_0_0 | SpecVersion::V1_1_0 => ip.clone(),
        }
    }

    /// Returns a configuration that the plugin accepts for ADD of `ctr1`.
    pub fn config(&self) -> Value {
        self.config_of(&self.guest)
    }

    /// Returns a configuration that the plugin accepts for ADD of a container.
    pub fn config_of(&self, guest: &CaseContainer) -> Value {
        let mut config = self.config_of_network();
        match self.subject.plugin.as_str() {
            "host-device" => config["device"] = json!(guest.device()),
            "vlan" => config["vlanId"] = json!(guest.number),
            "portmap" => config["runtimeConfig"]["portMappings"][0]["hostPort"] = json!(8080 + u16::from(guest.number)),
            "static" => config["ipam"]["addresses"][0]["address"] = json!(guest.address()),
            _ => {}
        }
        if let Some(previous) = &guest.previous {
            config["prevResult"] = previous.clone();
        }
        config
    }

    /// Returns the configuration as for GC and STATUS.
    pub fn config_of_network(&self) -> Value {
        let about = json!({"cniVersion": self.version.as_str(), "name": "n1", "type": self.subject.plugin});
        with(&about, &self.subject.keys)
    }

    /// Prepares a call about `ctr1` with a configuration that the plugin accepts.
    pub fn call(&self, verb: Verb) -> Invocation {
        self.call_for(verb, &self.guest)
    }

    /// Prepares a call about a container with a configuration that the plugin accepts.
    pub fn call_for(&self, verb: Verb, guest: &CaseContainer) -> Invocation {
        ipam::answer(&self.ipam_result(guest));
        let call = self.bare(verb).container_id(guest.container.name()).netns(guest.container.path());
        let call = call.ifname(self.subject.ifname()).config(&self.config_of(guest));
        if self.subject.args().is_empty() { call } else { call.args(self.subject.args()) }
    }

    /// Prepares a call about a container, with the result of ADD and, maybe, other keys.
    pub fn call_with(&self, verb: Verb, guest: &CaseContainer, result: &Value, keys: &Value) -> Invocation {
        let config = with(&self.config_of(guest), keys);
        self.call_for(verb, guest).config(&with(&config, &json!({"prevResult": result})))
    }

    /// Causes a loss, and prepares the DEL that follows.
    ///
    /// # Panics If there is nothing to lose.
    pub fn del_after(&self, guest: &CaseContainer, result: &Value, loss: Loss) -> Invocation {
        let mut request = Attachment::new(guest.container.name(), &guest.container).ifname(self.subject.ifname());
        request.args = self.subject.args().to_owned();
        request.result = Some(result.clone());
        let request = loss.strike(&guest.container, request);
        let mut config = self.config_of(guest);
        match request.result {
            Some(result) => config["prevResult"] = result,
            None => drop(config.as_object_mut().and_then(|keys| keys.remove("prevResult"))),
        }
        let call = self.call_for(Verb::Del, guest).config(&config).netns(&request.netns);
        if request.args.is_empty() { call } else { call.args(&request.args) }
    }

    /// Prepares a call about the network, without any of a container's variables.
    pub fn call_network(&self, verb: Verb, keys: &Value) -> Invocation {
        let call = self.bare(verb).without_env("CNI_CONTAINERID").without_env("CNI_IFNAME");
        call.config(&with(&self.config_of_network(), keys))
    }

    /// A call whose `CNI_PATH` is the folder under test, and that of the stand-in.
    fn bare(&self, verb: Verb) -> Invocation {
        let path = format!("{}:{}", binaries::under_test().display(), ipam::PLUGINS);
        Invocation::new(&self.sandbox, &self.subject.plugin, verb).path(&path)
    }

    /// Runs ADD of `ctr1`.
    pub fn add(&self) -> Result<Value, Mismatch> {
        self.add_of(&self.guest)
    }

    /// Runs ADD of a container.
    pub fn add_of(&self, guest: &CaseContainer) -> Result<Value, Mismatch> {
        self.call_for(Verb::Add, guest).run().must_print_object()
    }

    /// Runs ADD of `ctr1` with other keys.
    pub fn add_with(&self, keys: &Value) -> Result<Value, Mismatch> {
        self.try_to_add_with(keys).must_print_object()
    }

    /// Runs ADD of `ctr1` with other keys, which may fail.
    pub fn try_to_add_with(&self, keys: &Value) -> Outcome {
        self.call(Verb::Add).config(&with(&self.config(), keys)).run()
    }

    /// Runs CHECK of `ctr1` after ADD with no other keys than usual.
    pub fn check(&self, result: &Value) -> CaseVerdict {
        self.check_of(&self.guest, result)
    }

    /// Runs CHECK of a container.
    pub fn check_of(&self, guest: &CaseContainer, result: &Value) -> CaseVerdict {
        self.call_with(Verb::Check, guest, result, &json!({})).run().must_succeed().map(drop)
    }

    /// Requires that CHECK of `ctr1` fails with an error object.
    pub fn check_must_fail(&self, result: &Value) -> CaseVerdict {
        self.call_with(Verb::Check, &self.guest, result, &json!({})).run().must_print_error().map(drop)
    }

    /// Runs DEL of a container.
    pub fn del_of(&self, guest: &CaseContainer, result: &Value) -> CaseVerdict {
        self.call_with(Verb::Del, guest, result, &json!({})).run().must_succeed().map(drop)
    }

    /// Runs DEL of `ctr1`.
    pub fn del(&self, result: &Value) -> CaseVerdict {
        self.del_of(&self.guest, result)
    }

    /// Runs DEL of `ctr1` with other keys.
    pub fn del_with(&self, result: &Value, keys: &Value) -> CaseVerdict {
        self.call_with(Verb::Del, &self.guest, result, keys).run().must_succeed().map(drop)
    }

    /// Takes a snapshot of the host and of some containers: of what does not change by itself.
    pub fn state_with(&self, guests: &[&CaseContainer]) -> Vec<String> {
        let containers: Vec<&Namespace> = guests.iter().map(|guest| &*guest.container).collect();
        settled::lines(&State::capture(&self.sandbox, &containers))
    }

    /// Takes a snapshot of the host and of `ctr1`.
    pub fn state(&self) -> Vec<String> {
        self.state_with(&[&self.guest])
    }

    /// Requires that everything is as before, after some time for the kernel.
    pub fn is_as_before(&self, before: &[String], now: impl Fn() -> Vec<String>) -> CaseVerdict {
        let started = Instant::now();
        let mut changes = differences(before, &now());
        while !changes.is_empty() && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(50));
            changes = differences(before, &now());
        }
        unchanged("host and containers as they were before", &changes)
    }

    /// Requires that a command on the host shows a text.
    pub fn host_shows(&self, line: &str, part: &str) -> CaseVerdict {
        shows(self.sandbox.host(), line, part)
    }

    /// Requires that a command in `ctr1` shows a text.
    pub fn container_shows(&self, line: &str, part: &str) -> CaseVerdict {
        shows(&self.guest.container, line, part)
    }

    /// Requires that a command on the host does not show a text.
    pub fn host_lacks(&self, line: &str, part: &str) -> CaseVerdict {
        let shown = self.sandbox.sh(line);
        require(!shown.contains(part), format!("no {part:?} in `{line}`"), shown)
    }

    /// Returns the network of `ctr1`.
    pub fn inside(&self) -> Network {
        Network::observe(&self.guest.container)
    }

    /// Returns the network of the host.
    pub fn outside(&self) -> Network {
        Network::observe(self.sandbox.host())
    }
}

/// Runs lines of `ip` in one process.
fn ip(namespace: &Namespace, lines: &[String]) {
    let batch = format!("/run/conformance/{}.ip", namespace.name());
    fs::write(&batch, lines.join("\n")).unwrap_or_else(|error| panic!("write {batch}: {error}"));
    namespace.sh(&format!("ip -batch {batch}"));
}

fn shows(namespace: &Namespace, line: &str, part: &str) -> CaseVerdict {
    let shown = namespace.sh(line);
    require(shown.contains(part), format!("{part:?} in `{line}`"), if shown.is_empty() { "nothing" } else { &shown })
}
