//! What bandwidth changes besides a snapshot: traffic control.

use crate::Namespace;

/// Every discipline but the kernel's own, which have no handle, and every filter of an interface.
pub fn traffic_control(host: &Namespace) -> Vec<String> {
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
