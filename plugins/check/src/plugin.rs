//! Checks one element of `plugins`.

use cni_catalog::{Entry, NAMES, PluginKind, entry};
use cni_core::version::Version;
use serde_json::{Map, Value};

use crate::finding::Finding;
use crate::nearest::{distance, nearest};
use crate::network::{Network, gateways};
use crate::{object, ranges, tree};

/// The versions of the specification, and where an element is in its list.
pub struct ElementContext<'a> {
    pub at: usize,
    pub version: Option<&'a str>,
    pub is_in_list: bool,
}

/// Judges one element, and adds it to the network of the elements before it.
pub fn judge(plugin: &Value, place: &ElementContext<'_>, network: &mut Network, findings: &mut Vec<Finding>) {
    let at = if place.is_in_list { format!("plugins[{}]", place.at) } else { "plugin".to_owned() };
    let Some(keys) = plugin.as_object() else {
        let wrong = "an element of `plugins` is not an object".to_owned();
        return findings.push(Finding::new(at, wrong, "write {\"type\": …}".to_owned()));
    };
    let kind = match keys.get("type") {
        Some(Value::String(kind)) if !kind.is_empty() => kind.as_str(),
        found => {
            let wrong = found.map_or("the plugin has no `type`".to_owned(), |found| format!("`type` is {found}"));
            let instead = "write the name of a plugin, in quotes".to_owned();
            return findings.push(Finding::of_key(&at, "type", wrong, instead));
        }
    };
    let at = format!("{at} {kind}");
    let Some(entry) = entry(kind) else {
        return findings.extend(unknown_type(kind, &at, "type"));
    };
    object::judge(plugin, &tree::of_plugin(entry), "", &at, findings);
    findings.extend(in_its_place(entry, place, &at));
    findings.extend(second_interface(entry, network, &at));
    findings.extend(version(entry, place, &at));
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

fn in_its_place(entry: &Entry, place: &ElementContext<'_>, at: &str) -> Option<Finding> {
    let (wrong, instead) = match entry.kind {
        PluginKind::Ipam => (
            format!("{} assigns addresses for other plugins, and makes no interface", entry.name),
            format!(
                "put it into `ipam` of the plugin that makes the interface: \"ipam\": {{\"type\": \"{}\"}}",
                entry.name
            ),
        ),
        PluginKind::Chained if place.is_in_list && place.at == 0 => (
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
    Some(Finding::new(at.to_owned(), wrong, "remove one of them, or put it into a list of its own".to_owned()))
}

fn version(entry: &Entry, place: &ElementContext<'_>, at: &str) -> Option<Finding> {
    let version = Version::parse(place.version?)?;
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
) -> Option<Vec<ranges::AddressRange>> {
    let kind = match ipam.get("type") {
        Some(Value::String(kind)) if !kind.is_empty() => kind.as_str(),
        None if !ipam.is_empty() || is_required(entry) => {
            let wrong = "`ipam` has no `type`, so no addresses are assigned".to_owned();
            let instead = "write the name of an IPAM plugin: \"type\": \"host-local\"".to_owned();
            findings.push(Finding::of_key(at, "ipam.type", wrong, instead));
            return None;
        }
        _ => return None,
    };
    match cni_catalog::entry(kind) {
        None => findings.extend(unknown_type(kind, at, "ipam.type")),
        Some(known) if known.kind != PluginKind::Ipam => {
            let wrong = format!("\"{kind}\" is not an IPAM plugin");
            let instead = "write \"host-local\", \"dhcp\" or \"static\"".to_owned();
            findings.push(Finding::of_key(at, "ipam.type", wrong, instead));
        }
        Some(known) => {
            let value = Value::Object(ipam.clone());
            object::judge(&value, &tree::of_ipam(known), "ipam", at, findings);
            return (kind == "host-local").then(|| ranges::judge(ipam, gets_ranges, at, findings));
        }
    }
    None
}

fn is_required(entry: &Entry) -> bool {
    entry.keys.iter().any(|key| key.key == "ipam" && key.required)
}
