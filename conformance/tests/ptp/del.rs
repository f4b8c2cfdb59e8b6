//! DEL where a namespace cannot be entered, and after ADDs that were killed.

use std::time::Duration;

use cni_conformance::{Attachment, ListHost, Network, Verb, injection, leases};
use serde_json::json;

use crate::ptp::setup::{V4, V6, left_nothing_since, network, state};

/// Otherwise another container would get the addresses of an interface that may still exist.
#[test]
fn the_addresses_stay_reserved_while_the_namespace_cannot_be_searched() {
    let host = ListHost::new(network(&[V4, V6], &json!({})));
    let (_container, attachment) = host.add("id1");
    let call = host.runtime().invocation(Verb::Del, "ptp", &attachment, attachment.result.as_ref());
    assert_eq!(injection::outside_namespaces(&call).run().error().code, 8);
    assert_eq!(leases::of_network("/run/cni", "net1").len(), 2);
    host.del(&attachment);
    assert_eq!(leases::of_network("/run/cni", "net1"), [""; 0]);
}

#[test]
fn del_takes_away_what_a_killed_add_has_left() {
    let host = ListHost::new(network(&[V4, V6], &json!({"ipMasq": true})));
    let before = state(&host);
    let container = host.sandbox.container("id1");
    let attachment = Attachment::new("id1", &container);
    for time in [2, 5, 8, 12, 20] {
        let call = host.runtime().invocation(Verb::Add, "ptp", &attachment, None);
        call.killed_after(Duration::from_millis(time)).run();
        host.del(&attachment);
        left_nothing_since(&before, &host);
        assert_eq!(Network::observe(&container).link("eth0"), None);
    }
}
