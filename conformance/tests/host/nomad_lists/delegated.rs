//! A list whose first plugin has another one make the interface: flannel.

use std::path::PathBuf;

use serde_json::json;

use crate::nomad_lists::life::{NomadListHost, live};
use crate::nomad_lists::served::{Egress, Served};
use cni_conformance::{binaries, flannel};

/// Flannel's network is 10.64.0.0/14, this machine's part of it 10.64.168.0/22, and flanneld itself masquerades.
const LEASE: &str =
    "FLANNEL_NETWORK=10.64.0.0/14\nFLANNEL_SUBNET=10.64.168.1/22\nFLANNEL_MTU=1370\nFLANNEL_IPMASQ=true\n";

fn served() -> Served {
    let list = json!({
        "cniVersion": "0.4.0", "name": "flannel0",
        "plugins": [
            {"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    Served { egress: Egress::Direct, ..Served::new(list, "10.64.168.0/22", "10.64.168.1") }
}

/// Writes the lease as flanneld does before the first ADD.
fn folder() -> PathBuf {
    flannel::write_lease(LEASE);
    binaries::under_test()
}

#[test]
fn a_list_of_flannel_lives() {
    live(&NomadListHost::new(folder), &served());
}
