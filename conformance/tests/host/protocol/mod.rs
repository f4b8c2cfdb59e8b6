//! The protocol between runtime and plugin, which is one for all plugins.
//!
//! Environment, standard input, exit status, standard output and error objects, by SPEC and as
//! libcni, Nomad and nerdctl read them. Codes are the SPEC's where Go says 999 for want of care;
//! texts are Go's where a consumer or an operator may know them.

use cni_catalog::{PluginKind, entry, test_data};
use cni_conformance::keys::with;
use cni_conformance::{Invocation, Namespace, Sandbox, Verb, flannel, plugins};
use serde_json::{Value, json};

mod about;
mod checks;
mod inherited;
mod keys;
mod limits;
mod netns;
mod output;
mod spelling;

const PLUGINS: [&str; plugins::ALL.len()] = plugins::ALL;

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// Every command but VERSION.
const VERBS: [Verb; 5] = [Verb::Add, Verb::Check, Verb::Del, Verb::Gc, Verb::Status];

/// Returns the versions that a plugin takes, oldest first.
fn versions_of(plugin: &str) -> &'static [&'static str] {
    let oldest = &entry(plugin).expect("a plugin").oldest_version;
    let place = VERSIONS.iter().position(|version| version == oldest);
    &VERSIONS[place.unwrap_or_else(|| panic!("plugins/{plugin}/plugin.json: no version {oldest}"))..]
}

/// The interface of the host that links on a master work by.
const UPLINK: &str = "up0";

/// A machine with an uplink and a lease of flanneld.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.sh(&format!("ip link add {UPLINK} type bridge"));
    sandbox.sh(&format!("ip link set {UPLINK} up"));
    flannel::write_lease(&flannel::lease("10.88.0.0/16", "10.88.0.1/24", 1450));
    sandbox
}

/// Where the addresses of these tests are kept.
const LEASES: &str = "/run/leases";

/// Writes a small configuration that the plugin accepts, with an explicit version.
fn config(plugin: &str, version: &str) -> Value {
    let config = with(&json!({"cniVersion": version, "name": "n1", "type": plugin}), &test_data(plugin).small);
    match plugins::kind(plugin) {
        PluginKind::Chained => with(&config, &json!({"prevResult": prev_result(version)})),
        PluginKind::Loopback | PluginKind::Interface | PluginKind::Ipam => config,
    }
}

/// Writes the result of plugins that ran before, in the shape of the version.
fn prev_result(version: &str) -> Value {
    let routes = json!([{"dst": "0.0.0.0/0"}]);
    let interfaces = json!([{"name": "br0"}, {"name": "veth0"}, {"name": "eth0", "sandbox": "/run/netns/ctr1"}]);
    let ip = json!({"interface": 2, "address": "10.88.0.5/24", "gateway": "10.88.0.1"});
    match version {
        "0.1.0" | "0.2.0" => json!({
            "cniVersion": version,
            "ip4": {"ip": "10.88.0.5/24", "gateway": "10.88.0.1", "routes": routes},
            "dns": {},
        }),
        "1.0.0" | "1.1.0" => {
            json!({"cniVersion": version, "interfaces": interfaces, "ips": [ip], "routes": routes})
        }
        _ => json!({
            "cniVersion": version, "interfaces": interfaces, "routes": routes, "dns": {},
            "ips": [with(&ip, &json!({"version": "4"}))],
        }),
    }
}

/// The interface of a plugin's calls. One that changes an interface gets the one that is always there.
fn ifname(plugin: &str) -> &'static str {
    test_data(plugin).interface.as_deref().unwrap_or("eth0")
}

/// Prepares a call for the container `ctr1`.
fn call(sandbox: &Sandbox, plugin: &str, verb: Verb, container: &Namespace) -> Invocation {
    let call = Invocation::new(sandbox, plugin, verb).container_id("ctr1").netns(container.path());
    let call = call.ifname(ifname(plugin));
    test_data(plugin).args.as_deref().map_or(call.clone(), |args| call.args(args))
}
