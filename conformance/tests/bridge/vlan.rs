//! VLANs of a bridge: what no case can say: first containers at once, and a kernel without VLAN filtering.

use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::{Attachment, Feature, Network, Runtime, Sandbox, Verb, at_once};
use serde_json::{Value, json};

/// A network with a gateway in VLAN 5.
fn network() -> Value {
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "10.5.0.0/24"}]], "dataDir": "/run/ipam"});
    let plugin = json!({"type": "bridge", "bridge": "br0", "vlan": 5, "isGateway": true, "ipam": ipam});
    json!({"cniVersion": "1.0.0", "name": "vlans", "plugins": [plugin]})
}

#[test]
fn parallel_first_containers_share_one_link_to_the_vlan() {
    on_a_kernel_with(Feature::BridgeVlans, || {
        let sandbox = Sandbox::new();
        let containers: Vec<_> = (1..=4).map(|number| sandbox.container(&format!("c{number}"))).collect();
        let runtime = Runtime::new(&sandbox, network());
        let additions = containers.iter().map(|container| {
            runtime.invocation(Verb::Add, "bridge", &Attachment::new(container.name(), container), None)
        });
        for outcome in at_once(&additions.collect::<Vec<_>>()) {
            outcome.expect_success();
        }
        let ports = Network::observe(sandbox.host());
        let ports = ports.links.iter().filter(|link| link.controller.is_some()).count();
        assert_eq!(ports, 5, "one port for each container, and one for the host");
    });
}

#[test]
fn a_kernel_carries_vlans_out_or_undoes_everything() {
    for is_there in [false, true] {
        let sandbox = Sandbox::new();
        if is_there {
            sandbox.sh("ip link add br0 address 02:00:00:00:00:01 type bridge");
        }
        let container = sandbox.container("c1");
        let chain = Runtime::new(&sandbox, network()).add(&mut Attachment::new("c1", &container));
        if Feature::BridgeVlans.is_here() {
            chain.expect_success();
            continue;
        }
        let error = chain.expect_error("bridge", 2, "this kernel has no bridge VLAN filtering");
        assert!(error.msg.contains("vlan") && error.details.contains("operation not supported"), "{error:?}");
        assert_eq!(sandbox.exec(&["find", "/run/ipam", "-name", "10.5.*"]).stdout, "", "the address is still reserved");
        assert_eq!(Network::observe(sandbox.host()).link("br0").is_some(), is_there);
    }
}
