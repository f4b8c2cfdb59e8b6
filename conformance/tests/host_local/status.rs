//! STATUS during the first ADD of a network (C6 of `reference/defects.md`).

use cni_conformance::{Invocation, Sandbox, Verb, at_once};
use serde_json::json;

/// STATUS makes and removes the folder of a network that has none yet. ADD met it in between: "no such file".
#[test]
fn status_keeps_no_first_add_of_a_network_from_its_folder() {
    let sandbox = Sandbox::new();
    for number in 0..60 {
        let ipam = json!({"type": "host-local", "subnet": "10.1.2.0/24", "dataDir": "/run/leases"});
        let config = json!({"cniVersion": "1.1.0", "name": format!("n{number}"), "type": "bridge", "ipam": ipam});
        let call = |verb| Invocation::new(&sandbox, "host-local", verb).netns("/run/netns/c1").config(&config);
        let calls = [Verb::Status, Verb::Add, Verb::Status, Verb::Status].map(call);
        for outcome in at_once(&calls) {
            outcome.expect_success();
        }
    }
}
