//! Two networks that want one bridge at once.

use cni_conformance::{Network, Outcome, Sandbox, Verb, at_once};
use serde_json::json;

use crate::bridge::setup::{Port, network, with};

fn bridge_addresses(sandbox: &Sandbox) -> Vec<String> {
    Network::observe(sandbox.host()).addresses_of("br0")
}

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
    let ports = [("one", "10.1.2.0/24"), ("two", "10.9.2.0/24")].map(|(name, subnet)| {
        let config = with(&network(&[subnet], json!({"isGateway": true})), &json!({"name": name}));
        Port::new(&sandbox, name, config)
    });
    let mut outcomes = at_once(&ports.each_ref().map(|port| port.call(Verb::Add)));
    outcomes.retain(|outcome| !outcome.succeeded());
    (outcomes, bridge_addresses(&sandbox))
}
