//! A host with a lease of flanneld, and the list that k3s writes.

use std::fs;
use std::path::{Path, PathBuf};

pub use cni_conformance::flannel::{SUBNET_FILE, write_lease};
use cni_conformance::keys::with;
use cni_conformance::{Attachment, Container, ListHost, stand_in};
use serde_json::{Value, json};

/// As flanneld writes it.
pub const LEASE: &str = "\
FLANNEL_NETWORK=10.42.0.0/16
FLANNEL_SUBNET=10.42.1.1/24
FLANNEL_MTU=1450
FLANNEL_IPMASQ=true
";

/// With both families.
pub const DUAL: &str = "\
FLANNEL_NETWORK=10.42.0.0/16
FLANNEL_SUBNET=10.42.1.1/24
FLANNEL_IPV6_NETWORK=fd00:42::/56
FLANNEL_IPV6_SUBNET=fd00:42:0:1::1/64
FLANNEL_MTU=1450
FLANNEL_IPMASQ=true
";

/// Where the plugin keeps the state files of these tests: a folder that only they have.
pub const DATA: &str = "/run/flannel/containers";

pub fn remove_lease() {
    fs::remove_file(SUBNET_FILE).expect("remove the lease");
}

/// The plugin with the delegate of k3s.
pub fn flannel() -> Value {
    json!({
        "type": "flannel", "delegate": {"hairpinMode": true, "forceAddress": true, "isDefaultGateway": true},
        "ipam": {"dataDir": "/run/cni"}, "dataDir": DATA,
    })
}

pub fn list(keys: &Value) -> Value {
    json!({"cniVersion": "1.1.0", "name": "net1", "plugins": [with(&flannel(), keys)]})
}

/// A host with a lease whose list has flannel alone.
pub fn host_with(lease: &str, keys: &Value) -> ListHost {
    let host = ListHost::new(list(keys));
    write_lease(lease);
    host
}

pub fn host() -> ListHost {
    host_with(LEASE, &json!({}))
}

/// The state files, by name.
pub fn files() -> Vec<String> {
    let Ok(entries) = fs::read_dir(DATA) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn file(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}

/// What the reference composes of the list of k3s for this host.
pub fn composed(version: &str) -> String {
    format!(
        r#"{{"cniVersion":"{version}","forceAddress":true,"hairpinMode":true,"ipMasq":false,"ipam":{{"dataDir":"/run/cni","ranges":[[{{"subnet":"10.42.1.0/24"}}]],"routes":[{{"dst":"10.42.0.0/16"}}],"type":"host-local"}},"isDefaultGateway":true,"isGateway":true,"mtu":1450,"name":"net1","type":"bridge"}}"#
    )
}

/// A delegate of another project, of lines of shell, which keeps what it is called with.
pub fn foreign(lines: &str) -> PathBuf {
    stand_in::install("foreign", &format!("cat > /run/conformance/$CNI_COMMAND\n{lines}"))
}

/// What the foreign delegate was called with.
pub fn given(command: &str) -> Value {
    let text = fs::read_to_string(Path::new("/run/conformance").join(command)).expect("it was called");
    serde_json::from_str(&text).expect("JSON")
}

/// A further interface of a container.
pub fn second_interface(name: &str, container: &Container) -> Attachment {
    Attachment::new(name, container).ifname("eth1")
}
