//! `portIsolation`: ports of one bridge that do not reach each other.

use std::time::Duration;

use cni_conformance::Sandbox;
use serde_json::{Value, json};

use crate::bridge::setup::{Port, V4, V6, network};

const YES: Duration = Duration::from_secs(20);
const NO: Duration = Duration::from_millis(300);

/// Makes a container, and returns it with its addresses.
fn attached<'s>(sandbox: &'s Sandbox, id: &str, keys: Value) -> (Port<'s>, Vec<String>) {
    let mut keys = keys;
    keys["isDefaultGateway"] = json!(true);
    let port = Port::new(sandbox, id, network(&[V4, V6], keys));
    let result = port.add();
    let isolated = port.config["portIsolation"] == true;
    assert_eq!(port.host_end(&result).isolated, Some(isolated), "{id}");
    let addresses = port.inside().addresses_of("eth0");
    let addresses = addresses.iter().filter_map(|cidr| cidr.split('/').next()).map(str::to_owned).collect();
    port.check(&result);
    (port, addresses)
}

#[test]
fn isolated_ports_reach_the_host_and_other_ports_but_not_each_other() {
    let sandbox = Sandbox::new();
    let isolated = json!({"portIsolation": true});
    let (one, at_one) = attached(&sandbox, "id1", isolated.clone());
    let (two, at_two) = attached(&sandbox, "id2", isolated);
    let (open, at_open) = attached(&sandbox, "id3", json!({"portIsolation": false}));
    for address in at_open.iter().map(String::as_str).chain(["10.1.2.1", "fd00:1::1"]) {
        assert!(one.reaches(address, YES), "id1 must reach {address}");
        assert!(two.reaches(address, YES), "id2 must reach {address}");
    }
    for address in at_one.iter().chain(&at_two) {
        assert!(open.reaches(address, YES), "id3 must reach {address}");
    }
    for address in &at_two {
        assert!(!one.reaches(address, NO), "id1 must not reach {address}");
    }
    for address in &at_one {
        assert!(!two.reaches(address, NO), "id2 must not reach {address}");
    }
}

#[test]
fn ports_that_are_not_isolated_reach_each_other() {
    let sandbox = Sandbox::new();
    let (one, at_one) = attached(&sandbox, "id1", json!({}));
    let (two, at_two) = attached(&sandbox, "id2", json!({"portIsolation": null}));
    for (port, addresses) in [(one, at_two), (two, at_one)] {
        for address in addresses {
            assert!(port.reaches(&address, YES), "{address} must be reached");
        }
    }
}

#[test]
fn isolation_goes_together_with_hairpin_mode() {
    let sandbox = Sandbox::new();
    let port = Port::new(&sandbox, "id1", network(&[V4], json!({"portIsolation": true, "hairpinMode": true})));
    let result = port.add();
    let host_end = port.host_end(&result);
    assert_eq!((host_end.isolated, host_end.hairpin), (Some(true), Some(true)), "{host_end}");
}
