//! The bridge plugin: what no case can say: two networks that come at once.

use cni_conformance::{Attachment, Network, Outcome, Runtime, Sandbox, Verb, at_once};
use serde_json::json;

/// What the bridge has when its turn comes decides, and not what it had when the ADD began.
#[test]
fn of_two_networks_that_come_at_once_one_gets_the_bridge_and_the_other_is_refused() {
    let rounds: Vec<_> = (0..25).map(|_| two_networks_at_once()).collect();
    for (refused, addresses) in rounds {
        assert_eq!((refused.len(), addresses.len()), (1, 1), "{addresses:?}");
        refused[0].expect_error(103, "\"br0\" already has an IP address different from");
    }
}

/// Returns what was refused, and the addresses of the bridge.
fn two_networks_at_once() -> (Vec<Outcome>, Vec<String>) {
    let sandbox = Sandbox::new();
    let containers = ["one", "two"].map(|name| sandbox.container(name));
    let calls = containers.each_ref().map(|container| {
        let subnet = if container.name() == "one" { "10.1.2.0/24" } else { "10.9.2.0/24" };
        let ipam = json!({"type": "host-local", "ranges": [[{"subnet": subnet}]]});
        let plugin = json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": ipam});
        let list = json!({"cniVersion": "1.0.0", "name": container.name(), "plugins": [plugin]});
        let attachment = Attachment::new(container.name(), container);
        Runtime::new(&sandbox, list).invocation(Verb::Add, "bridge", &attachment, None)
    });
    let mut outcomes = at_once(&calls);
    outcomes.retain(|outcome| !outcome.succeeded());
    (outcomes, Network::observe(sandbox.host()).addresses_of("br0"))
}
