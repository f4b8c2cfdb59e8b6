//! The lists that need a plugin which is not there yet, and the plugins of others.
//!
//! When such a plugin comes, the tests fail here: its lists then belong in `served.rs`.

use std::os::unix::fs::symlink;
use std::path::Path;

use cni_conformance::cases::for_each;
use cni_conformance::{Invocation, Sandbox, Verb, binaries, plugins};
use serde_json::{Value, json};

/// What guests have behind each list; no plugin of ours, and tested in `vm`.
const TAP: &str = "tc-redirect-tap";

/// A list, and the plugins that it waits for.
type Waiting = (Value, &'static [&'static str]);

pub fn list(version: &str, name: &str, plugins: Value) -> Value {
    json!({"cniVersion": version, "name": name, "plugins": plugins})
}

pub fn portmap() -> Value {
    json!({"type": "portmap", "capabilities": {"portMappings": true}, "snat": true})
}

/// A plugin that is seldom used on Nomad, which sends it no capability, behind a bridge.
pub fn behind_a_bridge(plugin: Value) -> Value {
    let main = json!({
        "type": "bridge", "isGateway": true, "ipMasq": true,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]},
    });
    list("1.0.0", "seldom", json!([main, plugin]))
}

fn waiting() -> [(&'static str, Waiting); 1] {
    [("vrf", (behind_a_bridge(json!({"type": "vrf", "vrfname": "blue"})), &["vrf"]))]
}

/// Plugins of other projects, of which no list can be tested here; flannel's delegate is, in `delegated.rs`.
const FOREIGN: [&str; 9] =
    [TAP, "calico", "cilium-cni", "cni_args.sh", "flannel", "nebula", "smuggle", "weave-net", "wireguard-cni"];

/// The types that a list names, of plugins and of IPAM.
fn types(list: &Value) -> Vec<&str> {
    let plugins = list["plugins"].as_array().expect("a configuration list has plugins");
    let named = plugins.iter().flat_map(|plugin| [plugin["type"].as_str(), plugin["ipam"]["type"].as_str()]);
    named.flatten().collect()
}

/// Whether the binary under test is a plugin of this name.
fn is_there(sandbox: &Sandbox, name: &str) -> bool {
    let folder = Path::new("/run/conformance/named");
    std::fs::create_dir_all(folder).expect("a folder");
    let path = folder.join(name);
    symlink(binaries::under_test().join("cni-plugins"), &path).unwrap_or_else(|error| panic!("link {name}: {error}"));
    let outcome =
        Invocation::new(sandbox, name, Verb::Version).binaries(folder).config(&json!({"cniVersion": "1.0.0"})).run();
    outcome.stdout().contains("supportedVersions")
}

#[test]
fn every_list_that_waits_names_what_it_waits_for() {
    for_each(waiting(), |(list, missing)| {
        let mut found: Vec<&str> =
            types(&list).into_iter().filter(|name| !plugins::ALL.contains(name) && *name != TAP).collect();
        found.sort_unstable();
        assert_eq!(found, missing, "once nothing is missing, the list belongs in served.rs");
    });
}

#[test]
fn no_plugin_that_a_list_waits_for_is_there() {
    let sandbox = Sandbox::new();
    for name in plugins::ALL {
        assert!(is_there(&sandbox, name), "{name} is one of ours");
    }
    let mut missing: Vec<&str> = waiting().into_iter().flat_map(|(_, (_, missing))| missing).copied().collect();
    missing.sort_unstable();
    missing.dedup();
    for name in missing.into_iter().chain(FOREIGN) {
        assert!(!is_there(&sandbox, name), "{name} is there now: its lists belong in served.rs");
    }
}
