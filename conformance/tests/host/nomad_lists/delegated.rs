//! A plugin of another project that has the bridge plugin do its work: flannel.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::nomad_lists::life::{Host, live};
use crate::nomad_lists::served::{Egress, Served};
use cni_conformance::stand_in;

/// Flannel's network is 10.64.0.0/14, this machine's part of it 10.64.168.0/22, and flanneld itself masquerades.
fn flannel() -> Served {
    let list = json!({
        "cniVersion": "0.4.0", "name": "flannel0",
        "plugins": [
            {"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    Served { egress: Egress::Direct, ..Served::new(list, "10.64.168.0/22", "10.64.168.1") }
}

/// What flannel makes of its `delegate` and its network: the configuration of one plugin, without `plugins`.
fn handed_down() -> Value {
    json!({
        "cniVersion": "0.4.0", "name": "flannel0", "type": "bridge", "mtu": 1370, "ipMasq": false,
        "hairpinMode": true, "isDefaultGateway": true,
        "ipam": {
            "type": "host-local", "ranges": [[{"subnet": "10.64.168.0/22"}]], "routes": [{"dst": "10.64.0.0/14"}],
        },
    })
}

/// Does what flannel does for ADD and DEL; on CHECK flannel does nothing.
fn folder() -> PathBuf {
    let config = handed_down();
    let lines = format!("case $CNI_COMMAND in ADD | DEL) exec \"$CNI_PATH/bridge\" <<'END'\n{config}\nEND\n;; esac\n");
    stand_in::install("flannel", &lines)
}

#[test]
fn the_bridge_plugin_lives_under_flannel() {
    live(&Host::new(folder), &flannel());
}
