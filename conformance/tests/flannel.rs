//! The flannel plugin: which processes it starts. All else is in cases.

use cni_conformance::flannel::{lease, write_lease};
use cni_conformance::{Attachment, Runtime, Sandbox};
use serde_json::json;

/// The delegate and its IPAM plugin run inside the process, and nothing is printed beside the result.
#[test]
fn no_process_is_started_and_nothing_is_printed() {
    let sandbox = Sandbox::new();
    write_lease(&lease("10.42.0.0/16", "10.42.1.1/24", 1450).replace("IPMASQ=true", "IPMASQ=false"));
    let plugins = json!([{"type": "flannel", "delegate": {"isDefaultGateway": true}}, {"type": "portmap"}]);
    let runtime = Runtime::new(&sandbox, json!({"cniVersion": "1.1.0", "name": "net1", "plugins": plugins}));
    let containers = ["first", "c1"].map(|name| sandbox.container(name));
    let [mut first, mut attachment] =
        containers.each_ref().map(|container| Attachment::new(container.name(), container));
    runtime.add(&mut first).expect_success();
    let runtime = runtime.traced();
    let add = runtime.add(&mut attachment);
    add.expect_success();
    for chain in [add, runtime.check(&attachment), runtime.del(&attachment)] {
        chain.expect_success();
        assert_eq!((chain.children(), chain.step("flannel").stderr()), (Vec::new(), ""));
    }
}
