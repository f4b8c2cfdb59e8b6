//! Drawn networks of bridge, firewall and portmap, as far as both sides support them.

use cni_conformance::compare::row::ComparisonRow;
use cni_conformance::compare::walk::compare;
use cni_conformance::drawn::{Setup, holds, setups};
use cni_conformance::reference::{self, Level};
use serde_json::json;

/// How many networks are drawn: the same ones in every run.
const CASES: u32 = 10;

/// The keys that v1.1.1 does not know.
const NEWER: [&str; 4] = ["portIsolation", "macspoofchk", "ipMasqBackend", "masqAll"];

/// The row of a network, without what the reference does otherwise on purpose: it gives an interface one address of each family,
/// fails on a default route beside `isDefaultGateway`, and makes an empty chain for ports on host addresses of another family.
fn row(mut setup: Setup, level: Level) -> ComparisonRow {
    let is_v6 = |text: &str| text.contains(':');
    let mut families = Vec::new();
    setup.subnets.retain(|(subnet, _)| {
        let is_first = !families.contains(&is_v6(subnet));
        families.push(is_v6(subnet));
        is_first
    });
    if setup.bridge["isDefaultGateway"] == true {
        setup.routes.retain(|dst| !dst.ends_with("/0"));
    }
    let mut ports = setup.portmap.as_ref().map(|(_, ports)| ports.clone()).unwrap_or_default();
    ports.retain(|port| port.host_ip.is_empty() || families.iter().all(|v6| *v6 == is_v6(&port.host_ip)));
    let mut list = setup.list();
    for plugin in list["plugins"].as_array_mut().into_iter().flatten().filter(|_| level == Level::Old) {
        plugin.as_object_mut().expect("an object").retain(|key, _| !NEWER.contains(&key.as_str()));
        if plugin["ingressPolicy"] == "isolated" {
            plugin["ingressPolicy"] = json!("same-bridge");
        }
    }
    let version = if level == Level::Old && setup.version == "1.1.0" { "1.0.0" } else { setup.version };
    let mut others = ports.clone();
    others.iter_mut().for_each(|port| port.host_port += 10_000);
    let row = ComparisonRow::new("a drawn network", version, list["plugins"].clone());
    ComparisonRow { ports: [ports, others], ..row }
}

#[test]
fn drawn_networks_make_the_same_state_and_results() {
    let Some(reference) = reference::find("drawn networks") else { return };
    holds(5, CASES, &setups(), |setup| compare(&row(setup, reference.level), &reference));
}
