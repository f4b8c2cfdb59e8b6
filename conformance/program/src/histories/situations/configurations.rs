//! Configurations that the reference does not support, or treats differently on purpose.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use crate::histories::history::History;
use cni_conformance::sandbox::Flavour;

/// Something that configurations may not have.
pub(super) struct ConfigurationRow {
    /// Why.
    pub reason: &'static str,
    /// Removes it, and returns how often it was there.
    pub leave_out: fn(&mut History) -> usize,
}

pub(super) const ROWS: [ConfigurationRow; 4] = [
    ConfigurationRow {
        reason: "the reference cannot give an interface two addresses of one family",
        leave_out: second_addresses,
    },
    ConfigurationRow {
        reason: "the reference's ADD fails on a default route beside `isDefaultGateway`",
        leave_out: default_routes,
    },
    ConfigurationRow {
        reason: "the reference makes a chain without rules for ports on host addresses of the other family",
        leave_out: foreign_ports,
    },
    ConfigurationRow {
        reason: "the reference leaves out all but the first IPv6 port with the legacy ip6tables, which takes one rule for another",
        leave_out: legacy_ports,
    },
];

fn second_addresses(history: &mut History) -> usize {
    let ranges = history.networks.values_mut().flat_map(ranges_of);
    let mut left_out = 0;
    for sets in ranges {
        let mut families = Vec::new();
        let before = sets.len();
        sets.retain(|set| {
            let family = set.to_string().contains("::");
            let first = !families.contains(&family);
            families.push(family);
            first
        });
        left_out += before - sets.len();
    }
    left_out
}

/// The lists of range sets that a network's plugins have.
fn ranges_of(list: &mut Value) -> impl Iterator<Item = &mut Vec<Value>> {
    let plugins = list["plugins"].as_array_mut().into_iter().flatten();
    plugins.filter_map(|plugin| plugin.get_mut("ipam")?.get_mut("ranges")?.as_array_mut())
}

fn default_routes(history: &mut History) -> usize {
    let mut left_out = 0;
    for list in history.networks.values_mut() {
        for plugin in list["plugins"].as_array_mut().into_iter().flatten() {
            if plugin["isDefaultGateway"] == true
                && let Some(routes) = plugin["ipam"]["routes"].as_array_mut()
            {
                let before = routes.len();
                routes.retain(|route| route["dst"] != "0.0.0.0/0" && route["dst"] != "::/0");
                left_out += before - routes.len();
            }
        }
    }
    left_out
}

fn foreign_ports(history: &mut History) -> usize {
    let families: BTreeMap<String, [bool; 2]> =
        history.networks.iter().map(|(name, list)| (name.clone(), families_of(list))).collect();
    let mut left_out = 0;
    for member in history.containers.values_mut() {
        let here = families.get(&member.network).copied().unwrap_or_default();
        let ports = member.ports.as_array_mut().into_iter();
        for ports in ports {
            let before = ports.len();
            ports.retain(|port| match port["hostIP"].as_str().map(str::parse::<IpAddr>) {
                Some(Ok(IpAddr::V4(_))) => here == [true, false],
                Some(Ok(IpAddr::V6(_))) => here == [false, true],
                Some(Err(_)) | None => true,
            });
            left_out += before - ports.len();
        }
    }
    left_out
}

/// Whether a network has IPv4, and IPv6.
fn families_of(list: &Value) -> [bool; 2] {
    let plugins = list["plugins"].as_array().into_iter().flatten();
    let sets = plugins.filter_map(|plugin| plugin["ipam"]["ranges"].as_array()).flatten();
    let text: Vec<String> = sets.map(Value::to_string).collect();
    [text.iter().any(|set| set.contains('.')), text.iter().any(|set| set.contains("::"))]
}

fn legacy_ports(history: &mut History) -> usize {
    if history.iptables == Flavour::Nft {
        return 0;
    }
    let with_ipv6: Vec<String> =
        history.networks.iter().filter(|(_, list)| families_of(list)[1]).map(|(name, _)| name.clone()).collect();
    let members = history.containers.values_mut().filter(|member| with_ipv6.contains(&member.network));
    let ports = members.filter_map(|member| member.ports.as_array_mut());
    ports.map(|ports| std::mem::take(ports).len()).sum()
}
