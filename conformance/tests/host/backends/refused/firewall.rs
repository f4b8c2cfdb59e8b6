//! What firewall refuses.

use serde_json::json;

use super::{Row, UNREADABLE, UNUSABLE, row};

/// All of it.
pub fn rows() -> Vec<Row> {
    let rows = ["iptables", "nftables", "firewalld", "none"].into_iter().flat_map(of_any);
    rows.chain(names_of_nft()).collect()
}

/// Keys are checked alike, whatever the backend.
fn of_any(backend: &'static str) -> Vec<Row> {
    let row = |keys, code, msg: &str, details: &str| row("firewall", backend, keys, code, msg, details);
    let mut rows = Vec::new();
    for policy in ["bogus", "Isolated", "same-bridge ", "samebridge"] {
        let msg = format!("unknown ingress policy: {policy:?}");
        let details = "ingressPolicy must be open, same-bridge or isolated";
        rows.push(row(json!({"ingressPolicy": policy}), UNUSABLE, &msg, details));
    }
    for name in ["A B", "A\"B", "A\\B", "-x", "!x", "C23456789-123456789-123456789", "N\u{f6}RD"] {
        let msg = format!("invalid iptablesAdminChainName {name:?}");
        let details = "an iptables chain has 1 to 28 characters";
        rows.push(row(json!({"iptablesAdminChainName": name}), UNUSABLE, &msg, details));
    }
    for name in
        ["FORWARD", "ACCEPT", "REJECT", "TPROXY", "CNI-FORWARD", "CNI-ISOLATION-STAGE-1", "CNI-ISOLATION-STAGE-2"]
    {
        let msg = format!("iptablesAdminChainName {name:?} is reserved");
        rows.push(row(
            json!({"iptablesAdminChainName": name}),
            UNUSABLE,
            &msg,
            "it must not be a chain, verdict or target",
        ));
    }
    for zone in ["a b", "x;y", "a\"b"] {
        let msg = format!("invalid firewalldZone {zone:?}");
        rows.push(row(json!({"firewalldZone": zone}), UNUSABLE, &msg, "the name of a zone has letters, digits"));
    }
    for key in ["backend", "ingressPolicy", "iptablesAdminChainName", "firewalldZone"] {
        for (value, shown) in [(json!(7), "integer `7`"), (json!(["x"]), "sequence"), (json!(true), "boolean `true`")] {
            let details = format!("{key}: invalid type: {shown}, expected a string");
            rows.push(row(json!({key: value}), UNREADABLE, "failed to load netconf", &details));
        }
    }
    rows
}

/// Names for the administrator's chain that stand for something else in a table of nf_tables, or that `nft` cannot read.
fn names_of_nft() -> Vec<Row> {
    let row = |name: &str, msg: &str, details: &str| {
        row("firewall", "nftables", json!({"iptablesAdminChainName": name}), UNUSABLE, msg, details)
    };
    let taken = ["admin", "forward", "isolation-stage-1", "isolation-stage-2"]
        .map(|name| row(name, &format!("iptablesAdminChainName {name:?} is reserved"), "nor a chain of this plugin"));
    let unreadable = ["accept", "drop", "jump", "9A", "A:B", "A;B", "A{", "A$"].map(|name| {
        let msg = format!("invalid iptablesAdminChainName {name:?} for backend \"nftables\"");
        row(name, &msg, "a chain of nft has letters, digits")
    });
    taken.into_iter().chain(unreadable).collect()
}
