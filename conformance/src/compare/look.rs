//! What single plugins change besides a snapshot: traffic control, and policy routing rules.

use serde_json::Value;

use crate::{Namespace, Sandbox};

/// Returns the output of `tc` and `ip rule`, if the list has a plugin that changes them.
pub fn beyond_a_snapshot(list: &Value, sandbox: &Sandbox, containers: &[&Namespace]) -> Vec<String> {
    let has = |plugin: &str| list["plugins"].as_array().expect("plugins").iter().any(|entry| entry["type"] == plugin);
    let mut lines = Vec::new();
    if has("bandwidth") {
        lines.extend(traffic_control(sandbox.host()));
    }
    if has("sbr") || has("vrf") {
        lines.extend(containers.iter().flat_map(|container| rules(container)));
    }
    lines
}

/// Every discipline but the kernel's own, which have no handle, and every filter of an interface.
fn traffic_control(host: &Namespace) -> Vec<String> {
    let mut lines = Vec::new();
    for line in host.sh("tc qdisc show").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |index: usize| words.get(index).copied().unwrap_or_default();
        if at(2) == "0:" {
            continue;
        }
        lines.push(format!("tc: {}", words.join(" ")));
        if at(1) == "ingress" {
            let filters = host.sh(&format!("tc filter show dev {} ingress", at(4)));
            // The numbers of actions are the host's.
            let reported =
                filters.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("index "));
            lines.extend(reported.map(|line| format!("tc filter: {line}")));
        }
    }
    // Ends of veth pairs have random names here.
    lines.into_iter().map(|line| without_port(&line)).collect()
}

fn without_port(line: &str) -> String {
    let is_port = |word: &&str| word.len() == 12 && word.starts_with("veth");
    line.split(' ').map(|word| if is_port(&word) { "PORT" } else { word }).collect::<Vec<_>>().join(" ")
}

fn rules(container: &Namespace) -> Vec<String> {
    let text = ["-4", "-6"].map(|family| (family, container.sh(&format!("ip {family} rule"))));
    let lines = text.iter().flat_map(|(family, text)| text.lines().map(move |line| format!("{family} {line}")));
    lines.map(|line| format!("{} rule: {line}", container.name())).collect()
}
