//! What is said of a container: for people, and for programs.

use std::path::PathBuf;

use cni_linux::output::one_line;
use serde_json::{Value, json};

use super::about::{About, AboutAttachment};
use crate::doctor::finding::Finding;
use crate::output::paths;
use crate::result_cache;

/// How wide the names of lines are.
const WIDTH: usize = 12;

/// Text in lines that begin with a name, then the findings, and the caches, if there are several.
pub fn plain_text(about: &About, findings: &[Finding]) -> String {
    let mut text = lines("container", std::slice::from_ref(&about.container));
    for one in &about.attachments {
        text.push('\n');
        text += &of_attachment(one);
    }
    if !about.records.is_empty() {
        text += "\n";
        text += &lines("records", &paths(&about.records));
    }
    text.push('\n');
    text + &findings.iter().map(ToString::to_string).collect::<String>() + &result_cache::line(&about.caches)
}

fn of_attachment(one: &AboutAttachment) -> String {
    let AboutAttachment { network, ifname, state, netns, life, macs, host_interfaces, addresses, .. } = one;
    let namespace = netns.as_ref().map_or_else(|| life.clone(), |path| format!("{path} ({life})"));
    let macs: String = macs.iter().filter(|mac| !mac.is_empty()).map(|mac| format!(", MAC {mac}")).collect();
    let (chains, rules) = match &one.rules {
        Ok(own) => (own.chains.clone(), own.rules.clone()),
        Err(reason) => (Vec::new(), vec![format!("unknown: {reason}")]),
    };
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let cache: Vec<PathBuf> = one.cache.iter().cloned().collect();
    [
        lines("network", &[format!("{network}: {state}")]),
        lines("namespace", &[namespace]),
        lines("interface", &[format!("{ifname}{macs}")]),
        lines("on the host", host_interfaces),
        lines("addresses", &addresses),
        lines("host ports", &one.ports),
        lines("plugins", &[one.plugins.join(", ")]),
        lines("chains", &chains),
        lines("rules", &rules),
        lines("cache", &paths(&cache)),
        lines("leases", &paths(&one.leases)),
    ]
    .concat()
}

/// Returns a line for each value, the first one with the name; nothing if there are no values.
fn lines(name: &str, values: &[String]) -> String {
    let names = [name].into_iter().chain(std::iter::repeat(""));
    names.zip(values).map(|(name, value)| format!("{name:WIDTH$} {}\n", one_line(value))).collect()
}

/// One document.
pub fn json_text(about: &About, findings: &[Finding]) -> String {
    let document = json!({
        "container": about.container,
        "attachments": about.attachments.iter().map(json_of).collect::<Vec<_>>(),
        "records": paths(&about.records),
        "caches": paths(&about.caches),
        "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn json_of(one: &AboutAttachment) -> Value {
    let own = one.rules.as_ref().ok();
    json!({
        "network": one.network,
        "ifname": one.ifname,
        "state": one.state,
        "netns": one.netns,
        "namespace": one.life,
        "macs": one.macs,
        "hostInterfaces": one.host_interfaces,
        "addresses": one.addresses,
        "ports": one.ports,
        "plugins": one.plugins,
        "chains": own.map(|own| &own.chains),
        "rules": own.map(|own| &own.rules),
        "cache": one.cache.as_ref().map(|path| path.display().to_string()),
        "leases": paths(&one.leases),
    })
}
