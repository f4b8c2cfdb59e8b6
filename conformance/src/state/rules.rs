//! Packet filter rules as text.
//!
//! Tables `nat` and `filter` of both families are read by the sandbox's own flavour of iptables, which operators and
//! Nomad use too; all other tables are read by `nft`.

use std::collections::BTreeMap;

use crate::sandbox::Sandbox;

/// Tables that iptables keeps in nftables; they are read through iptables.
const IPTABLES_TABLES: [&str; 5] = ["nat", "filter", "mangle", "raw", "security"];

pub(super) fn read(sandbox: &Sandbox) -> BTreeMap<String, Vec<String>> {
    let mut sections = BTreeMap::new();
    for program in ["iptables", "ip6tables"] {
        for table in ["nat", "filter"] {
            let rules = sandbox.sh(&format!("{program} --wait -t {table} -S"));
            let lines = rules.lines().map(str::to_owned).collect();
            sections.insert(format!("{program} {table}"), lines);
        }
    }
    sections.insert("nftables".to_owned(), nftables(&sandbox.sh("nft --stateless list ruleset")));
    sections
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
    use super::nftables;

    #[test]
    fn tables_of_iptables_are_left_out() {
        let ruleset = "table ip nat {\n\tchain X {\n\t}\n}\ntable inet cni_hostport {\n}\n";
        assert_eq!(nftables(ruleset), ["table inet cni_hostport {", "}"]);
    }
}
