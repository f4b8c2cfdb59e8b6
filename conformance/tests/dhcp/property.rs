//! For any valid configuration, DEL restores the host, and releases the address to the server.

use cni_conformance::Network;
use cni_conformance::drawn::holds;
use cni_conformance::keys::with;
use proptest::option;
use proptest::prelude::Strategy;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::dhcp::setup::{FIRST, Lan, Server, list};

/// How many configurations are drawn: the same ones in every run.
const CASES: u32 = 8;

/// A list, and the container's ID.
type Drawn = (Value, &'static str);

fn drawn() -> impl Strategy<Value = Drawn> {
    let request = subsequence(
        vec![json!({"option": "121"}), json!({"option": "routers"}), json!({"option": "26", "skipDefault": true})],
        0..=3,
    );
    let provide = subsequence(
        vec![
            json!({"option": "host-name", "value": "web"}),
            json!({"option": "12", "value": "a", "fromArg": "K8S_POD_NAME"}),
            json!({"option": "user-class", "value": "blue"}),
            json!({"option": "60", "value": "x".repeat(255)}),
        ],
        0..=4,
    );
    let priority = option::of(select(vec![0, 1, 4_294_967_295_u32]));
    let id = select(vec!["c1", "a-container_with.a-long-name-0123456789-0123456789-0123456789"]);
    (request, provide, priority, select(vec!["1.1.0", "1.0.0", "0.4.0"]), id).prop_map(
        |(request, provide, priority, version, id)| {
            let keys = json!({"request": request, "provide": provide});
            let mut list = list(&priority.map_or(keys.clone(), |priority| with(&keys, &json!({"priority": priority}))));
            list["cniVersion"] = json!(version);
            (list, id)
        },
    )
}

fn live((list, id): Drawn) {
    let lan = Lan::new(Server::Dnsmasq(&["--dhcp-option=3,10.1.2.1", "--dhcp-option=121,10.9.0.0/16,10.1.2.9"]), list);
    let links = || Network::observe(lan.sandbox.host()).links.len();
    let before = links();
    let (container, attachment) = lan.add(id);
    assert_eq!((lan.records().len(), links()), (1, before));
    lan.check(&attachment);
    for _ in 0..2 {
        lan.del(&attachment);
        assert!(lan.records().is_empty() && Network::observe(&container).link("eth0").is_none());
    }
    lan.await_log(&format!("DHCPRELEASE(srv0) {FIRST}"), 1);
    let (_, next) = lan.add("next");
    assert_eq!(lan.log().matches("DHCPRELEASE").count(), 1);
    lan.del(&next);
}

#[test]
fn del_releases_what_add_leased() {
    holds(23, CASES, &drawn(), live);
}
