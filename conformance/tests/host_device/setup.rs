//! A host with an interface that containers get: one end of a veth pair, whose other end stays on the host as `far`.

use cni_conformance::keys::with;
use cni_conformance::{ListHost, Namespace, Network};
use serde_json::{Value, json};

/// The MAC address of the interface.
pub const MAC: &str = "02:00:00:00:00:0a";

/// A list whose only plugin is host-device.
pub fn list(keys: &Value) -> Value {
    let plugin = with(&json!({"type": "host-device"}), keys);
    json!({"cniVersion": "1.0.0", "name": "net1", "plugins": [plugin]})
}

/// By name, without addresses.
pub fn by_name() -> Value {
    list(&json!({"device": "ens1"}))
}

/// By name, with addresses of both families.
pub fn addressed() -> Value {
    let ipam = json!({
        "type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/64"}]],
        "routes": [{"dst": "10.9.0.0/16"}], "dataDir": "/run/cni",
    });
    list(&json!({"device": "ens1", "ipam": ipam}))
}

/// The interface is up, has an alias of the administrator, and is a port of `br9`.
pub fn host(list: Value) -> ListHost {
    let host = ListHost::new(list);
    for line in [
        "ip link add br9 address 02:00:00:00:00:99 type bridge".to_owned(),
        "ip link set br9 up".to_owned(),
        format!("ip link add ens1 address {MAC} mtu 1400 type veth peer name far address 02:00:00:00:00:0b"),
        "ip link set ens1 alias uplink".to_owned(),
        "ip link set ens1 master br9".to_owned(),
        "ip link set ens1 up".to_owned(),
        "ip link set far up".to_owned(),
    ] {
        host.sandbox.sh(&line);
    }
    host
}

/// Whether a namespace has a link of a name.
pub fn has(namespace: &Namespace, name: &str) -> bool {
    Network::observe(namespace).link(name).is_some()
}
