//! Tables as `nft list ruleset` prints them (nftables 1.0.6).

use std::net::IpAddr;

use cni_netfilter::nftables::{BaseChain, Hook, Policy, Set, TableFamily};

use super::table::{FakeChain, FakeTable};

/// A table with its sets and chains.
pub(super) fn table(FakeTable { table, chains, sets }: &FakeTable) -> String {
    let mut text = format!("table {} {{\n", table.id);
    if let Some(comment) = &table.comment {
        text.push_str(&format!("\tcomment \"{comment}\"\n"));
    }
    let parts: Vec<String> = sets.iter().map(set).chain(chains.iter().map(chain)).collect();
    text.push_str(&parts.join("\n"));
    text.push_str("}\n");
    text
}

fn set((set, addresses): &(Set, Vec<IpAddr>)) -> String {
    let mut text = format!("\tset {} {{\n\t\ttype {}\n", set.id.name, set.type_name());
    if !addresses.is_empty() {
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        text.push_str(&format!("\t\telements = {{ {} }}\n", addresses.join(",\n\t\t\t     ")));
    }
    text.push_str("\t}\n");
    text
}

fn chain(FakeChain { chain, rules }: &FakeChain) -> String {
    let mut text = format!("\tchain {} {{\n", chain.id.name);
    if let Some(comment) = &chain.comment {
        text.push_str(&format!("\t\tcomment \"{comment}\"\n"));
    }
    if let Some(BaseChain { kind, hook, priority, policy }) = chain.base {
        let priority = priority_name(chain.id.table.family, hook, priority);
        let policy = policy.unwrap_or(Policy::Accept);
        text.push_str(&format!("\t\ttype {kind} hook {hook} priority {priority}; policy {policy};\n"));
    }
    for (_, rule) in rules {
        text.push_str(&format!("\t\t{rule}\n"));
    }
    text.push_str("\t}\n");
    text
}

/// A priority as `nft` prints it: relative to a standard priority that is at most ten away.
fn priority_name(family: TableFamily, hook: Hook, priority: i32) -> String {
    let near = standard_priorities(family, hook).iter().find(|(_, at)| (at - 10..=at + 10).contains(&priority));
    match near {
        Some((name, at)) if *at == priority => (*name).to_owned(),
        Some((name, at)) if *at < priority => format!("{name} + {}", priority - at),
        Some((name, at)) => format!("{name} - {}", at - priority),
        None => priority.to_string(),
    }
}

const fn standard_priorities(family: TableFamily, hook: Hook) -> &'static [(&'static str, i32)] {
    match (family, hook) {
        (TableFamily::Bridge, Hook::Prerouting) => &[("dstnat", -300), ("filter", -200)],
        (TableFamily::Bridge, Hook::Output) => &[("filter", -200), ("out", 100)],
        (TableFamily::Bridge, Hook::Postrouting) => &[("filter", -200), ("srcnat", 300)],
        (TableFamily::Bridge, Hook::Input | Hook::Forward) => &[("filter", -200)],
        (_, Hook::Prerouting) => &[("raw", -300), ("mangle", -150), ("dstnat", -100), ("filter", 0), ("security", 50)],
        (_, Hook::Postrouting) => &[("raw", -300), ("mangle", -150), ("filter", 0), ("security", 50), ("srcnat", 100)],
        (_, Hook::Input | Hook::Forward | Hook::Output) => {
            &[("raw", -300), ("mangle", -150), ("filter", 0), ("security", 50)]
        }
    }
}
