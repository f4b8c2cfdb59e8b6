//! A plugin of another project that has the bridge plugin do its work: flannel.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cni_conformance::{binaries, plugins, script};
use serde_json::{Value, json};

use crate::life::{Host, live};
use crate::served::{Egress, Served};

const FOLDER: &str = "/run/conformance/opt";

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

/// Our plugins, and a script that does what flannel does for ADD and DEL; on CHECK flannel does nothing.
fn install() -> PathBuf {
    let folder = Path::new(FOLDER);
    fs::create_dir_all(folder).expect("a folder for plugins");
    for plugin in plugins::ALL {
        symlink(binaries::under_test().join(plugin), folder.join(plugin)).expect("a link to a plugin");
    }
    let lines =
        format!("case $CNI_COMMAND in ADD | DEL) exec \"$CNI_PATH/bridge\" <<'END'\n{}\nEND\n;; esac\n", handed_down());
    script::install(&folder.join("flannel"), &lines);
    folder.to_owned()
}

#[test]
fn the_bridge_plugin_lives_under_flannel() {
    live(&Host::new(install), &flannel());
}
