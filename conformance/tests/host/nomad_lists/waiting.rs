//! What lists have in common, and the plugins of other projects, whose lists cannot be tested here.

use std::os::unix::fs::symlink;
use std::path::Path;

use cni_conformance::{Invocation, Sandbox, Verb, binaries, plugins};
use serde_json::{Value, json};

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

/// Plugins of other projects, which cannot be tested here.
const FOREIGN: [&str; 7] = ["calico", "cilium-cni", "cni_args.sh", "nebula", "smuggle", "weave-net", "wireguard-cni"];

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
fn no_plugin_of_others_is_there() {
    let sandbox = Sandbox::new();
    for name in plugins::ALL {
        assert!(is_there(&sandbox, name), "{name} is one of ours");
    }
    for name in FOREIGN {
        assert!(!is_there(&sandbox, name), "{name} is there now: its lists belong in served.rs");
    }
}
