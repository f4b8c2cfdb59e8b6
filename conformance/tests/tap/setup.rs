//! A host whose containers get tap devices.

use cni_conformance::keys::with;
use cni_conformance::{Container, Network};
use serde_json::{Value, json};

/// A list whose only plugin is tap.
pub fn list(keys: &Value) -> Value {
    let plugin = with(&json!({"type": "tap"}), keys);
    json!({"cniVersion": "1.1.0", "name": "net1", "plugins": [plugin]})
}

/// With addresses of both families.
pub fn addressed(keys: &Value) -> Value {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/64"}]],
        "routes": [{"dst": "10.9.0.0/16"}], "dataDir": "/run/cni",
    });
    list(&with(&json!({"ipam": ipam}), keys))
}

pub fn has(container: &Container, name: &str) -> bool {
    Network::observe(container).link(name).is_some()
}

/// What `ip` prints about the device's kind.
pub fn details(container: &Container) -> String {
    container.must(&["ip", "-details", "link", "show", "dev", "eth0"])
}
