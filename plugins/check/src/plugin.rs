//! Checks one element of `plugins`.

use cni_catalog::{Entry, NAMES, PluginKind, ValueType, entry};
use cni_core::version::Version;
use serde_json::{Map, Value};

use crate::finding::{Finding, distance, nearest};
use crate::network::{AddressRange, Network, gateways, judge_ranges};
use crate::tree::{self, Node};
use crate::value::{of_type, within_limits};

/// Judges one element, and adds it to the network of the elements before it. `place` is where it is in its list; a single
/// configuration has none. `version` is that of the specification.
pub fn judge(
    plugin: &Value,
    place: Option<usize>,
    version: Option<&str>,
    network: &mut Network,
    findings: &mut Vec<Finding>,
) {
    let at = place.map_or("plugin".to_owned(), |place| format!("plugins[{place}]"));
    let Some(keys) = plugin.as_object() else {
        return findings.push(Finding::new(at, "an element of `plugins` is not an object", "write {\"type\": …}"));
    };
    let kind = match keys.get("type") {
        Some(Value::String(kind)) if !kind.is_empty() => kind.as_str(),
        found => {
            let wrong = found.map_or("the plugin has no `type`".to_owned(), |found| format!("`type` is {found}"));
            return findings.push(Finding::of_key(&at, "type", wrong, "write the name of a plugin, in quotes"));
        }
    };
    let at = format!("{at} {kind}");
    let Some(entry) = entry(kind) else {
        return findings.extend(unknown_type(kind, &at, "type"));
    };
    judge_value(plugin, &tree::of_plugin(entry), "", &at, findings);
    findings.extend(in_its_place(entry, place, &at));
    findings.extend(second_interface(entry, network, &at));
    findings.extend(too_old(entry, version, &at));
    findings.extend(exclusive(entry, keys, &at));
    findings.extend(capability(entry, keys, &at));
    let has_ipam = entry.keys.iter().any(|key| key.key == "ipam.type");
    if let Some(ipam) = keys.get("ipam").and_then(Value::as_object).filter(|_| has_ipam) {
        let gets_ranges = keys.get("capabilities").and_then(|all| all.get("ipRanges")) == Some(&Value::Bool(true));
        network.ranges.extend(judge_ipam(entry, ipam, gets_ranges, &at, findings).unwrap_or_default());
    }
    if kind == "bridge" {
        network.gateways = gateways(keys, &network.ranges);
    }
    network.entries.push(entry);
}

/// A finding for a name that is nearly that of one of these plugins. Other projects have plugins too, so only one wrong
/// letter counts.
fn unknown_type(kind: &str, at: &str, key: &str) -> Option<Finding> {
    let near = nearest(kind, NAMES).filter(|near| distance(kind, near) == 1)?;
    let wrong = format!("there is no plugin \"{kind}\" here, and the name is nearly \"{near}\"");
    Some(Finding::of_key(at, key, wrong, format!("write \"{near}\", unless it is a plugin of another project")))
}

fn in_its_place(entry: &Entry, place: Option<usize>, at: &str) -> Option<Finding> {
    let (wrong, instead) = match entry.kind {
        PluginKind::Ipam => (
            format!("{} assigns addresses for other plugins, and makes no interface", entry.name),
            format!(
                "put it into `ipam` of the plugin that makes the interface: \"ipam\": {{\"type\": \"{}\"}}",
                entry.name
            ),
        ),
        PluginKind::Chained if place == Some(0) => (
            format!("{} needs the result of a plugin before it, and is the first", entry.name),
            "put the plugin that makes the interface before it".to_owned(),
        ),
        PluginKind::Chained | PluginKind::Interface | PluginKind::Loopback => return None,
    };
    Some(Finding::new(at.to_owned(), wrong, instead))
}

/// All plugins of a list get one interface name.
fn second_interface(entry: &Entry, network: &Network, at: &str) -> Option<Finding> {
    let first = network.of_kind(PluginKind::Interface).filter(|_| entry.kind == PluginKind::Interface)?;
    let wrong = format!("{} and {} both make the interface of the container, and ADD fails", first.name, entry.name);
    Some(Finding::new(at.to_owned(), wrong, "remove one of them, or put it into a list of its own"))
}

fn too_old(entry: &Entry, version: Option<&str>, at: &str) -> Option<Finding> {
    let version = Version::parse(version?)?;
    let oldest = Version::parse(&entry.oldest_version)?;
    (version < oldest).then(|| {
        let wrong = format!("{} does not take version {version}", entry.name);
        Finding::new(at.to_owned(), wrong, format!("write \"cniVersion\": \"1.0.0\", or at least \"{oldest}\""))
    })
}

fn is_given(keys: &Map<String, Value>, key: &str) -> bool {
    match keys.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

fn exclusive(entry: &Entry, keys: &Map<String, Value>, at: &str) -> Option<Finding> {
    let together = |group: &&Vec<String>| group.iter().filter(|key| is_given(keys, key)).count() > 1;
    let group = entry.exclusive.iter().find(together)?;
    let [one, other] = &group[..] else { return None };
    let wrong = format!("`{one}` and `{other}` exclude each other");
    Some(Finding::of_key(at, one, wrong, format!("remove `{one}` or `{other}`")))
}

fn capability(entry: &Entry, keys: &Map<String, Value>, at: &str) -> Option<Finding> {
    let needed = entry.needs_capability.as_deref()?;
    let is_declared = keys.get("capabilities").and_then(|all| all.get(needed)) == Some(&Value::Bool(true));
    let is_given = keys.get("runtimeConfig").and_then(|all| all.get(needed)).is_some();
    (!is_declared && !is_given).then(|| {
        let wrong =
            format!("the runtime gives {} nothing, since the capability `{needed}` is not declared", entry.name);
        let instead = format!("add \"capabilities\": {{\"{needed}\": true}}");
        Finding::of_key(at, "capabilities", wrong, instead)
    })
}

/// Judges `ipam` by the row of the IPAM plugin. The runtime may add ranges.
fn judge_ipam(
    entry: &Entry,
    ipam: &Map<String, Value>,
    gets_ranges: bool,
    at: &str,
    findings: &mut Vec<Finding>,
) -> Option<Vec<AddressRange>> {
    let kind = match ipam.get("type") {
        Some(Value::String(kind)) if !kind.is_empty() => kind.as_str(),
        None if !ipam.is_empty() || is_required(entry) => {
            let wrong = "`ipam` has no `type`, so no addresses are assigned";
            let instead = "write the name of an IPAM plugin: \"type\": \"host-local\"";
            findings.push(Finding::of_key(at, "ipam.type", wrong, instead));
            return None;
        }
        _ => return None,
    };
    match cni_catalog::entry(kind) {
        None => findings.extend(unknown_type(kind, at, "ipam.type")),
        Some(known) if known.kind != PluginKind::Ipam => {
            let wrong = format!("\"{kind}\" is not an IPAM plugin");
            findings.push(Finding::of_key(at, "ipam.type", wrong, "write \"host-local\", \"dhcp\" or \"static\""));
        }
        Some(known) => {
            let value = Value::Object(ipam.clone());
            judge_value(&value, &tree::of_ipam(known), "ipam", at, findings);
            return (kind == "host-local").then(|| judge_ranges(ipam, gets_ranges, at, findings));
        }
    }
    None
}

fn is_required(entry: &Entry) -> bool {
    entry.keys.iter().any(|key| key.key == "ipam" && key.required)
}

/// Judges a value and all below it. `path` is where it is.
fn judge_value(value: &Value, node: &Node, path: &str, plugin: &str, findings: &mut Vec<Finding>) {
    let mut found = |(wrong, instead)| findings.push(Finding::of_key(plugin, path, wrong, instead));
    if let Some(wrong) = node.value.and_then(|expected| of_type(value, expected)) {
        return found(wrong);
    }
    if let Some(wrong) = node.key.and_then(|key| within_limits(value, key)) {
        return found(wrong);
    }
    match (value, &node.element) {
        (Value::Object(object), _) => judge_object(object, node, path, plugin, findings),
        (Value::Array(elements), Some(node)) => {
            for (at, element) in elements.iter().enumerate() {
                judge_value(element, node, &format!("{path}[{at}]"), plugin, findings);
            }
        }
        _ => {}
    }
}

fn judge_object(object: &Map<String, Value>, node: &Node, path: &str, plugin: &str, findings: &mut Vec<Finding>) {
    let place = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let is_free = node.keys.is_empty();
    for (name, value) in object {
        match node.find(name) {
            Some((known, below)) => {
                if known != name {
                    let wrong = format!("the key is written `{name}`; plugins accept it, other programs may not");
                    findings.push(Finding::of_key(plugin, &place(name), wrong, format!("write `{known}`")));
                }
                judge_value(value, below, &place(name), plugin, findings);
            }
            None if is_free => {
                let values = node.key.and_then(|key| key.elements);
                if let Some((wrong, instead)) = values.and_then(|expected| of_type(value, expected)) {
                    findings.push(Finding::of_key(plugin, &place(name), wrong, instead));
                }
            }
            None => findings.extend(unknown(name, node, &place(name), plugin)),
        }
    }
    for (name, below) in &node.keys {
        let is_required = below.key.is_some_and(|key| key.required);
        let is_there = object.iter().any(|(key, value)| key.eq_ignore_ascii_case(name) && !is_absent(value, below));
        if is_required && !is_there {
            let wrong = format!("`{name}` is missing");
            findings.push(Finding::of_key(plugin, &place(name), wrong, "the plugin cannot work without it"));
        }
    }
}

fn is_absent(value: &Value, node: &Node) -> bool {
    value.is_null() || node.value == Some(ValueType::String) && value == ""
}

/// An unknown key. Where other programs have keys too, it counts only if it is nearly a known one.
fn unknown(name: &str, node: &Node, place: &str, plugin: &str) -> Option<Finding> {
    let near = nearest(name, node.keys.iter().map(|(key, _)| *key));
    let instead = match near {
        Some(near) => format!("write `{near}`"),
        None if node.is_open => return None,
        None => "remove it, or look up the key on the plugin's page".to_owned(),
    };
    let wrong = format!("the key `{name}` is unknown, and is ignored");
    Some(Finding::of_key(plugin, place, wrong, instead))
}
