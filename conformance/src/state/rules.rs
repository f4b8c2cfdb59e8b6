//! Packet filter rules as text.
//!
//! Tables `nat` and `filter` of both families are read by the sandbox's own flavour of iptables, which operators and
//! Nomad use too; all other tables are read by `nft`.

use std::collections::BTreeMap;

use crate::sandbox::{Flavour, Sandbox};

/// Tables that iptables keeps in nftables; they are read through iptables.
const IPTABLES_TABLES: [&str; 5] = ["nat", "filter", "mangle", "raw", "security"];

/// The tables with the output of iptables for a missing one.
const TABLES: [(&str, &str); 2] = [
    ("nat", "-P PREROUTING ACCEPT\n-P INPUT ACCEPT\n-P OUTPUT ACCEPT\n-P POSTROUTING ACCEPT\n"),
    ("filter", "-P INPUT ACCEPT\n-P FORWARD ACCEPT\n-P OUTPUT ACCEPT\n"),
];

pub(super) fn read(sandbox: &Sandbox) -> BTreeMap<String, Vec<String>> {
    let ruleset = sandbox.sh("nft --stateless list ruleset");
    let mut sections = BTreeMap::new();
    for (program, family) in [("iptables", "ip"), ("ip6tables", "ip6")] {
        for (table, policies) in TABLES {
            // A table that nftables does not have needs no program to print it.
            let is_missing = sandbox.flavour() == Flavour::Nft && !has_table(&ruleset, family, table);
            let rules = if is_missing { policies.to_owned() } else { iptables(sandbox, program, table) };
            sections.insert(format!("{program} {table}"), rules.lines().map(str::to_owned).collect());
        }
    }
    sections.insert("nftables".to_owned(), nftables(&ruleset));
    sections
}

fn has_table(ruleset: &str, family: &str, table: &str) -> bool {
    ruleset.lines().any(|line| line == format!("table {family} {table} {{"))
}

fn iptables(sandbox: &Sandbox, program: &str, table: &str) -> String {
    sandbox.sh(&format!("{program} --wait -t {table} -S"))
}

/// Leaves out the tables that belong to iptables.
fn nftables(ruleset: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut wanted = false;
    for line in ruleset.lines() {
        if let Some(table) = line.strip_prefix("table ") {
            let words: Vec<&str> = table.split_whitespace().collect();
            let [family, name, ..] = words[..] else { panic!("unknown line of nft: {line:?}") };
            wanted = !(family.starts_with("ip") && IPTABLES_TABLES.contains(&name));
        }
        if wanted {
            lines.push(line.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_iptables_are_left_out() {
        let ruleset = "table ip nat {\n\tchain X {\n\t}\n}\ntable inet cni_hostport {\n}\n";
        assert_eq!(nftables(ruleset), ["table inet cni_hostport {", "}"]);
    }

    mod as_root {
        use super::*;

        #[test]
        fn missing_tables_are_those_that_iptables_prints() {
            let sandbox = Sandbox::new();
            let has_rules = |family| {
                ["nat", "filter"].map(|table| has_table(&sandbox.sh("nft --stateless list ruleset"), family, table))
            };
            for program in ["iptables", "ip6tables"] {
                for (table, policies) in TABLES {
                    assert_eq!(iptables(&sandbox, program, table), policies, "{program} {table}");
                }
            }
            assert_eq!((has_rules("ip"), has_rules("ip6")), ([false; 2], [false; 2]));
            sandbox.sh("iptables --wait -t nat -N X");
            sandbox.sh("ip6tables --wait -P FORWARD DROP");
            assert_eq!((has_rules("ip"), has_rules("ip6")), ([true, false], [false, true]));
            let sections = read(&sandbox);
            assert!(sections["iptables nat"].contains(&"-N X".to_owned()), "{sections:?}");
            assert!(sections["ip6tables filter"].contains(&"-P FORWARD DROP".to_owned()), "{sections:?}");
        }
    }
}
