//! firewall

use serde_json::json;

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome};

/// Shows all rules of table filter.
const RULES: &str = "iptables --wait -t filter -S";

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["firewall"])
}

pub const CASES: &[Template] = &[
    add("firewall-from-container", "packets from the container's address are accepted", |host| {
        host.add()?;
        host.host_shows(RULES, "-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT")
    }),
    add("firewall-to-container", "packets of connections to the container's address are accepted", |host| {
        host.add()?;
        host.host_shows(RULES, "-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
    }),
    add("firewall-jump", "FORWARD leads to the plugin's chain", |host| {
        host.add()?;
        host.host_shows("iptables --wait -t filter -S FORWARD", "-j CNI-FORWARD")
    }),
    add("firewall-admin-chain", "the administrator's chain comes before the rules of containers", |host| {
        host.add()?;
        host.host_shows(
            RULES,
            "-A CNI-FORWARD -m comment --comment \"CNI firewall plugin admin overrides\" -j CNI-ADMIN",
        )
    }),
    add("firewall-own-admin-chain", "iptablesAdminChainName names the administrator's chain", |host| {
        host.add_with(&json!({"iptablesAdminChainName": "MY-RULES"}))?;
        host.host_shows(RULES, "-j MY-RULES")
    }),
    add("firewall-same-bridge", "ingressPolicy same-bridge keeps other bridges' packets away", |host| {
        host.add_with(&json!({"ingressPolicy": "same-bridge"}))?;
        host.host_shows(RULES, "CNI-ISOLATION-STAGE-1")
    }),
    add("firewall-unknown-policy", "an unknown ingressPolicy is refused", |host| {
        host.try_to_add_with(&json!({"ingressPolicy": "bogus"})).must_print_error().map(drop)
    }),
    Template::new(
        Topic::Del,
        "firewall-rules-gone",
        "DEL removes the rules of the container and leaves the chain",
        |host| {
            let result = host.add()?;
            host.del(&result)?;
            host.host_lacks(RULES, "10.88.0.5")?;
            host.host_shows(RULES, "-N CNI-FORWARD")
        },
    )
    .page(&["firewall"]),
];
